"""The trace that a message is part of: W3C Trace Context, level 1 (`traceparent`, `tracestate`).

Rule: malformed values are ignored; no exception comes out. `ingest/native/traces.c` finds the same
      messages without Python.
"""

import re
from dataclasses import dataclass
from typing import Final

#: version, trace id, parent id, flags; further fields of later versions follow a dash.
_PARENT: Final = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_SAMPLED: Final = 1
#: Characters of a tracestate; a longer one is left out.
STATE_CHARS_MAX: Final = 512


@dataclass(frozen=True, slots=True)
class TraceContext:
    """A sampled trace (16 bytes), its parent span (8 bytes), and the tracestate, which tracing
    systems want passed on."""

    trace_id: bytes
    parent_id: bytes
    state: str = ""


def read_context(parent: str, state: str = "") -> TraceContext | None:
    """Parse `traceparent` and `tracestate`; return None if the trace isn't sampled, or the parent
    is malformed."""
    found = _PARENT.fullmatch(parent)
    if found is None or found[1] == "ff" or (found[1] == "00" and found[5] is not None):
        return None
    trace_id, parent_id = bytes.fromhex(found[2]), bytes.fromhex(found[3])
    if not (any(trace_id) and any(parent_id)) or not int(found[4], 16) & _SAMPLED:
        return None
    return TraceContext(trace_id, parent_id, state if len(state) <= STATE_CHARS_MAX else "")
