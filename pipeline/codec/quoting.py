"""What somebody else said, quoted in a sentence: no longer than a line, whatever it was."""

from distributary.pipeline.codec.amqp_types import Decimal, Described, Map

#: Characters of a text, bytes of a binary, that are quoted.
QUOTED_MAX = 80


def quoted(value: object) -> str:
    """A value as it may stand in a sentence. A long text is cut, and what has values in it is named
    by its kind: nothing is written out that isn't shown."""
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
