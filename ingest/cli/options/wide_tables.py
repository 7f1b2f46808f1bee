"""Tables whose names and ids are never broken, so that they can be copied from the screen."""

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table


def print_table(table: Table, *, err: bool = False) -> None:
    """Print it to standard output, or (`err`) to standard error. Where a column that doesn't wrap
    needs more room than the screen has, the lines are longer than the screen, which wraps them
    itself."""
    console = Console(stderr=err)
    needed = Measurement.get(console, console.options.update(max_width=2**16), table).minimum
    console.width = max(console.width, needed)
    console.print(table)
