"""Publish/subscribe with the guarantees of JMS over a Delta Lake: what notebooks and jobs import.

    from distributary import backlog, pending, session, tables

    spark = session()
    pending(spark, "build/home", "global/dispatchers").show()
    backlog(tables(spark, "build/home")).show()

Applications publish and subscribe with `distributary.client`, which has a face of its own.
Everything else is inside of the rooms: `distributary.pipeline`, `distributary.ingest`,
`distributary.jobs`, `distributary.conf`. The names here are imported when they are asked for: a
gateway never loads Spark.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from distributary.jobs.publishing import register as register_sink
    from distributary.jobs.session.session import session
    from distributary.jobs.subscription import register as register_source
    from distributary.jobs.views.notebook_views import register, stuck, stuck_summary
    from distributary.pipeline.transforms.past.state_as_of import pending_as_of, state
    from distributary.pipeline.transforms.past.topic_as_of import topic_as_of
    from distributary.pipeline.transforms.schema.home_tables import find_tables as tables
    from distributary.pipeline.transforms.schema.lake_rows import lake_tables
    from distributary.pipeline.transforms.views.backlog import backlog
    from distributary.pipeline.transforms.views.consumers import consumers
    from distributary.pipeline.transforms.views.pending import pending

__all__ = [
    "backlog",
    "consumers",
    "lake_tables",
    "pending",
    "pending_as_of",
    "register",
    "register_sink",
    "register_source",
    "session",
    "state",
    "stuck",
    "stuck_summary",
    "tables",
    "topic_as_of",
]

_VIEWS = "distributary.pipeline.transforms.views"
_PAST = "distributary.pipeline.transforms.past"
#: Name -> module, and what it is called there.
_PLACES = {
    "session": ("distributary.jobs.session.session", "session"),
    "register_sink": ("distributary.jobs.publishing", "register"),
    "register_source": ("distributary.jobs.subscription", "register"),
    "register": ("distributary.jobs.views.notebook_views", "register"),
    "lake_tables": ("distributary.pipeline.transforms.schema.lake_rows", "lake_tables"),
    "stuck": ("distributary.jobs.views.notebook_views", "stuck"),
    "stuck_summary": ("distributary.jobs.views.notebook_views", "stuck_summary"),
    "tables": ("distributary.pipeline.transforms.schema.home_tables", "find_tables"),
    "backlog": (f"{_VIEWS}.backlog", "backlog"),
    "consumers": (f"{_VIEWS}.consumers", "consumers"),
    "pending": (f"{_VIEWS}.pending", "pending"),
    "pending_as_of": (f"{_PAST}.state_as_of", "pending_as_of"),
    "state": (f"{_PAST}.state_as_of", "state"),
    "topic_as_of": (f"{_PAST}.topic_as_of", "topic_as_of"),
}


def __getattr__(name: str) -> object:
    """One of the names in `__all__`. Raises AttributeError."""
    if name not in _PLACES:
        raise AttributeError(f"module 'distributary' has no attribute {name!r}")
    module, inside = _PLACES[name]
    found: object = getattr(import_module(module), inside)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
