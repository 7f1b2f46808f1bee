"""W3C Trace Context: which traces are sampled."""

import pytest

from distributary.pipeline.tracing.trace_context import TraceContext, read_context

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
READ = TraceContext(bytes.fromhex(TRACE), bytes.fromhex(PARENT))


@pytest.mark.parametrize(
    ("text", "sampled"),
    [
        (f"00-{TRACE}-{PARENT}-01", True),
        (f"00-{TRACE}-{PARENT}-03", True),
        (f"00-{TRACE}-{PARENT}-ff", True),
        (f"cc-{TRACE}-{PARENT}-01", True),
        (f"cc-{TRACE}-{PARENT}-01-what-comes", True),
        (f"00-{TRACE}-{PARENT}-00", False),
        (f"00-{TRACE}-{PARENT}-02", False),
        (f"00-{TRACE}-{PARENT}-01-what", False),
        (f"cc-{TRACE}-{PARENT}-01.what", False),
        (f"ff-{TRACE}-{PARENT}-01", False),
        (f"00-{TRACE}-{PARENT}-0x", False),
        (f"00-{TRACE}-{PARENT}-1", False),
        (f"00-{TRACE.upper()}-{PARENT}-01", False),
        (f"00-{'0' * 32}-{PARENT}-01", False),
        (f"00-{TRACE}-{'0' * 16}-01", False),
        (f"00-{TRACE}{PARENT}-01", False),
        (f"00_{TRACE}_{PARENT}_01", False),
        ("", False),
        ("0" * 10_240, False),
    ],
)
def test_what_is_right_and_flagged_is_sampled(text: str, sampled: bool) -> None:
    assert read_context(text) == (READ if sampled else None)


def test_a_state_is_passed_on_unless_it_is_too_long() -> None:
    text = f"00-{TRACE}-{PARENT}-01"
    for state, kept in (("a=1,b=2", "a=1,b=2"), ("x" * 512, "x" * 512), ("x" * 513, "")):
        found = read_context(text, state)
        assert found is not None
        assert found.state == kept
