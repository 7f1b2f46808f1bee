"""Schemas and a home's messages: `distributary schema infer`, the sample of `check`."""

import json
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from distributary.ingest.cli.answer_tables import SEEN_PLACES, show_rows
from distributary.ingest.cli.options.command_options import ABSENT, json_option, print_json
from distributary.ingest.runtime import load_settings
from distributary.pipeline.codec.quoting import quoted
from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.schemas.body_content import content_of, json_body
from distributary.pipeline.schemas.inference import SeenPlace, proposed, told
from distributary.pipeline.schemas.schema_choice import pattern
from distributary.pipeline.schemas.schema_version import Framing, SchemaVersion
from distributary.pipeline.schemas.typed_row import Misfit, NotFitting
from distributary.pipeline.tables.home.home import Home

if TYPE_CHECKING:
    from collections.abc import Iterator

    from distributary.pipeline.tables.reading.newest_messages import LoggedMessage

#: Misfits that are shown, and kinds of them that are counted.
SHOWN_MAX, KINDS_MAX = 5, 100


def _newest(home: Path, config: Path | None, topic: str, count: int) -> "Iterator[LoggedMessage]":
    """Yield the newest messages of a topic, or of a pattern's topics. Nothing is locked or written,
    so the gateway may run; messages of the last second aren't there yet."""
    from distributary.ingest.commit.table_location import table_store  # noqa: PLC0415 (pyarrow takes a while)
    from distributary.pipeline.tables.arrow.topic_log_schema import MESSAGE  # noqa: PLC0415 (as above)
    from distributary.pipeline.tables.reading.newest_messages import newest_messages  # noqa: PLC0415 (as above)
    from distributary.pipeline.tables.topic_log.table_view import open_view  # noqa: PLC0415 (as above)

    if not home.is_dir():
        raise InvalidRequest(f"--home {home} is no folder: name the one that the gateway serves")
    store = table_store(Home(home), load_settings.load(config, flags={}))
    files = open_view(store).of(MESSAGE)
    return newest_messages(store, files, pattern(topic).matches_topic, count)


def sample_report(
    version: SchemaVersion, home: Path, config: Path | None, count: int
) -> dict[str, Any]:
    """Return how many of the newest messages fit a version, and why the others don't. Raises
    InvalidRequest and StoreError."""
    from distributary.pipeline.schemas.formats.row_reader import row_reader  # noqa: PLC0415 (so do the libraries of formats)

    reader = row_reader(version)
    fit, places, shown = 0, Counter[str](), list[str]()
    for one in _newest(home, config, version.topic, count):
        row = reader.read(one.message)
        if not isinstance(row, Misfit):
            fit += 1
            continue
        if row.place in places or len(places) < KINDS_MAX:
            places[row.place] += 1
        if len(shown) < SHOWN_MAX:
            shown.append(f"{one.sequence}: {row.sentence}")
    misfits = [f"{place or 'the body'}: {often}" for place, often in places.most_common(SHOWN_MAX)]
    return {"fit": fit, "misfit": places.total(), "misfits_at": misfits, "for_example": shown}


@click.command()
@click.argument("topic")
@click.option(
    "--home", type=click.Path(path_type=Path), required=True, help="The gateway's folder."
)
@click.option("--config", type=click.Path(path_type=Path), help="The home's settings.")
@click.option("--sample", type=click.IntRange(1), default=100_000, show_default=True)
@json_option
def infer(topic: str, home: Path, config: Path | None, sample: int, as_json: bool) -> None:
    """Propose a JSON Schema by the newest messages; findings go to standard error.

    \b
    Examples:
      distributary schema infer orders --home ~/orders > order.json
      distributary schema infer orders --home ~/orders --sample 1000 --json

    It may run beside the gateway. Values of a type that fewer than one in a hundred has are odd:
    they are told and left out. Exit code 3: there are no messages of that topic.
    """
    seen, unreadable, example = SeenPlace(), 0, ""
    for one in _newest(home, config, topic, sample):
        try:
            seen.add(json_body(content_of(one.message), Framing.PLAIN, exact=False))
        except NotFitting as wrong:
            unreadable += 1
            example = example or f"{one.sequence}: {wrong.misfit.sentence}"
    if not seen.count and not unreadable:
        click.echo(f"distributary: {quoted(topic)} has no messages in {home}", err=True)
        sys.exit(ABSENT)
    proposal, lines = proposed(seen), told(seen)
    if as_json:
        facts = {"messages": seen.count + unreadable, "unreadable": unreadable, "example": example}
        print_json({"schema": proposal, **facts, "seen": lines})
        return
    click.echo(json.dumps(proposal, indent=2, ensure_ascii=False))
    click.echo(
        f"{seen.count} messages were read, {unreadable} couldn't be. {example}".strip(), err=True
    )
    show_rows(SEEN_PLACES, lines, "messages", err=True)
