"""Clocks that say what a test says, for what asks a clock."""

from collections.abc import Callable


def at(*seconds: float) -> Callable[[], float]:
    """Says these, one each time that it is asked; the last one from then on."""
    left = list(seconds)
    return lambda: left.pop(0) if len(left) > 1 else left[0]
