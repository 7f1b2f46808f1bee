"""The errors of Arrow and deltalake, for those who may run before these are loaded."""

import sys
from typing import Final

_ERRORS: Final = (("pyarrow", "ArrowException"), ("deltalake.exceptions", "DeltaError"))


def library_errors(*others: type[Exception]) -> tuple[type[Exception], ...]:
    """These, and what Arrow and deltalake raise; nothing of one that isn't loaded, as then nothing
    can raise it. To be asked where an exception is caught: `except library_errors(OSError)`."""
    known = tuple(
        getattr(sys.modules[module], name) for module, name in _ERRORS if module in sys.modules
    )
    return (*others, *known)
