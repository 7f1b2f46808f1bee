"""A group on its way to the disk: what gathers in it, and what of it is being written."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ingest.link import Link
from pipeline.message import Group, MessageRun, Settlement, Slab, SubscriptionRecord
from pipeline.subscription import BEGINNINGS, SubscriptionEvent

if TYPE_CHECKING:
    from ingest.connection import Connection
    from ingest.log import Inside, Receipt


@dataclass(slots=True)
class Waiting:
    """What the next group will hold, and who is told when it is durable.

    `size` is the messages' bytes; the connections of `held` are not read until the group goes.
    """

    runs: list[MessageRun] = field(default_factory=list)
    publishers: "list[Connection | Inside]" = field(default_factory=list)  #: of each run
    settlements: list[Settlement] = field(default_factory=list)
    records: list[SubscriptionRecord] = field(default_factory=list)
    receipts: "list[Receipt]" = field(default_factory=list)
    confirmations: "list[Receipt]" = field(default_factory=list)
    then: list[Callable[[], None]] = field(default_factory=list)
    size: int = 0
    held: list[Link] = field(default_factory=list)
    aimed: bool = False  #: some run is for one subscription alone

    def __bool__(self) -> bool:
        told = self.receipts or self.confirmations or self.then
        return bool(self.runs or self.settlements or self.records or told)

    def note_begun(self, begun: dict[str, int], group: int) -> None:
        """The group has this number: `begun` has for each durable subscription that lives, by its
        id, the group in which its incarnation began."""
        for record in self.records:
            if record.event in BEGINNINGS:
                begun[record.key.id] = group
            elif record.event is SubscriptionEvent.DELETED:
                begun.pop(record.key.id, None)


@dataclass(frozen=True, slots=True, eq=False)
class Writing:
    """The group that the journal writes now, and its slabs as they will be delivered."""

    group: Group
    waiting: Waiting
    slabs: tuple[tuple[str, Slab], ...]
