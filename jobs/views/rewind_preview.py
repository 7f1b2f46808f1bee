"""Preview of a rewind by Spark, for `distributary subscription rewind --dry-run`."""

import json
import time
from dataclasses import asdict

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from distributary.jobs.session.session import session
from distributary.jobs.tables.folders import require_tables
from distributary.pipeline.log.log_position import place
from distributary.pipeline.transforms.past.rewinding import Rewinding, rewinding
from distributary.pipeline.transforms.schema.home_tables import find_tables


def preview(tables: str, subscription: str, to: str, *, as_json: bool) -> None:
    """Print the preview. `tables`: folder of Spark's tables, `to`: a place as in a rewind. Raises
    InvalidRequest when there are no tables or no such subscription, or `to` is no place."""
    at = place(to, time.time_ns() // 1_000)
    require_tables(tables)
    found = rewinding(find_tables(session(places=[tables]), tables), subscription, at)
    if as_json:
        print(json.dumps(asdict(found), indent=2))  # noqa: T201 (what was asked for)
    else:
        _show(found)


def _show(found: Rewinding) -> None:
    table = Table(box=SIMPLE, title=f"Rewind {found.subscription} to sequence {found.sequence}")
    table.add_column("messages", justify="right")
    table.add_column("what happens to them")
    for count, says in (
        (found.again, "settled; they come again"),
        (found.anyway, "owed; they come anyway"),
        (found.expired, "expired; no consumer gets them"),
        (found.dropped, "owed, but they lie before that place: they come no more"),
        (found.gone, "can't come again: the log has them no more"),
    ):
        table.add_row(f"{count:,}", says)
    console = Console()
    console.print(table)
    if not found.possible:
        console.print(
            f"The gateway would refuse it: the log begins with sequence {found.log_from}."
        )
    console.print(f"As of version {found.log_version} of topic_log; what came later comes, too.")
