"""Types of buffers."""

from typing import TypeAlias

#: A buffer whose bytes can be read without a copy.
Bytes: TypeAlias = bytes | bytearray | memoryview
