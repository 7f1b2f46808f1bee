"""Foreign values, quoted in a sentence: never longer than a line."""

from distributary.pipeline.codec.amqp_types import Decimal, Described, Map

#: Most characters of a text, and bytes of a binary, that are quoted.
QUOTED_MAX = 80


def quoted(value: object) -> str:
    """Return a value as a text for a sentence. A long text is cut, and a container is named by its
    kind: its elements aren't formatted."""
    match value:
        case str() if len(value) > QUOTED_MAX:
            return f"{str(value[:QUOTED_MAX])!r}... ({len(value)} characters)"
        case bytes() if len(value) > QUOTED_MAX:
            return f"{value[:QUOTED_MAX]!r}... ({len(value)} bytes)"
        case Described():
            return "a described value"
        case Decimal():
            return f"a decimal of {len(value.raw)} bytes"
        case Map():
            return f"a map of {len(value.pairs)} pairs"
        case list():
            return f"a list of {len(value)}"
    return repr(value)
