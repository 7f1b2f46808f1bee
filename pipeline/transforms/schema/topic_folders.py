"""The folders of a topic's typed tables, below the folder of all tables.

Rule: no two topics have one folder. `NAME.v2`, `NAME.v3`, ... are of the same topic as `NAME`: a
      new one begins with a version whose columns couldn't be added to the table before.
"""

import hashlib
import re
from typing import Final

#: The table of messages that don't fit their schema.
REJECTED_NAME: Final = "rejected"
#: Characters of a topic's name as a folder, beyond which a digest stands for the rest.
NAME_CHARACTERS_MAX: Final = 120
_PLAIN: Final = re.compile(r"[A-Za-z0-9._-]")
_LIKE_A_LATER_TABLE: Final = re.compile(r"\.(v\d+)$")


def folder_name(topic: str, number: int = 1) -> str:
    """A topic as the name of a folder; `number` counts its tables."""
    text = "".join(
        one if _PLAIN.fullmatch(one) else "".join(f"~{byte:02x}" for byte in one.encode())
        for one in topic
    )
    text = _LIKE_A_LATER_TABLE.sub(r"~2e\1", text)
    if text[:1] in {".", "_"}:  # Hadoop ignores folders with such names
        text = f"~{ord(text[0]):02x}{text[1:]}"
    if len(text) > NAME_CHARACTERS_MAX:
        digest = hashlib.sha256(topic.encode()).hexdigest()[:32]
        text = f"{text[:NAME_CHARACTERS_MAX]}~~{digest}"
    return text if number == 1 else f"{text}.v{number}"
