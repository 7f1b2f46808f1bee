"""The errors of Arrow and deltalake, for code that may run before these libraries are loaded."""

import sys
from typing import Final

_ERRORS: Final = (("pyarrow", "ArrowException"), ("deltalake.exceptions", "DeltaError"))


def library_errors(*others: type[Exception]) -> tuple[type[Exception], ...]:
    """Return `others` and the errors of Arrow and deltalake; a library that isn't loaded can raise
    none and is left out. Call it where an exception is caught: `except library_errors(OSError)`."""
    known = tuple(
        getattr(sys.modules[module], name) for module, name in _ERRORS if module in sys.modules
    )
    return (*others, *known)
