"""What bytes may lie in."""

from typing import TypeAlias

#: Anything that gives its bytes away without a copy.
Bytes: TypeAlias = bytes | bytearray | memoryview
