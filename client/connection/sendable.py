"""Texts that an attach, an open or a login can say."""

from distributary.pipeline.codec.quoting import quoted
from distributary.pipeline.errors import InvalidRequest


def check_text(what: str, text: str, *, secret: bool = False) -> None:
    """Raise InvalidRequest for a text that isn't Unicode, as of an argument that isn't UTF-8, or
    that has a NUL: the engine would end it there, and it would mean another one."""
    try:
        text.encode()
    except UnicodeEncodeError:
        why = "it isn't UTF-8"
    else:
        if "\0" not in text:
            return
        why = "it has a NUL"
    raise InvalidRequest(f"{what} can't be sent: {why}" if secret else
                         f"{what} can't be {quoted(text)}: {why}")  # fmt: skip
