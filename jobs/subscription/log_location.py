"""Address and identity of a gateway's `topic_log`: checked before any message is taken.

Rule 1: a query takes no message before the table that it can reach was found to be the gateway's.
Rule 2: a batch that was acquired in an earlier run of the query belongs to the gateway of that run;
        another gateway isn't asked to settle it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from distributary.jobs.subscription.choices import Choices
from distributary.jobs.subscription.offset import Offset
from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.log.log_identity import LogIdentity, digest
from distributary.pipeline.tables.reading.part_reading import entry, require_same


@dataclass(frozen=True, slots=True)
class LogLocation:
    """A gateway's log: the address as the gateway sees it, and the table's identity."""

    uri: str
    identity: LogIdentity

    @classmethod
    def of(cls, said: Mapping[str, Any]) -> Self:
        """Return the log of an answer. Raises InvalidRequest for an older gateway."""
        return cls(str(said.get("log", "")), LogIdentity.of(said.get("table")))

    def seen_by(self, choices: Choices) -> str:
        """Return the address as the query and its executors see it."""
        return choices.log or self.uri

    def require(self, choices: Choices, at: Offset) -> None:
        """Raise StoreError when the table can't be reached from here or isn't the gateway's, and
        InvalidRequest when the batch that ends at `at` was acquired from another gateway."""
        uri, options = self.seen_by(choices), dict(choices.storage)
        require_same(uri, options, self.identity)
        if not at.number:
            return
        if at.table is None:
            if at.log != self.uri:
                raise InvalidRequest(_other(at, self.uri))
            return
        if at.table.table == self.identity.table and at.table.version <= self.identity.version:
            former = entry(uri, options, at.table.version)
            if former is None or digest(former) == at.table.entry:
                return
        raise InvalidRequest(_other(at, self.uri))


def _other(at: Offset, uri: str) -> str:
    """Return the error for a batch of another gateway."""
    return (
        f"the query's checkpoint is of another gateway: its last batch came from {at.log}, and "
        f"this gateway's topic_log, {uri}, isn't that table as it went on. Nothing was taken or "
        "settled; name the gateway that it was begun with, or begin with another checkpoint"
    )
