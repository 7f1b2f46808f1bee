"""The log of each message of a run: its topic's, or its partition's."""

from collections.abc import Sequence
from functools import lru_cache

from distributary.ingest.native.message_addresses import addresses, keys
from distributary.ingest.native.runs import Received
from distributary.pipeline.lake.partitions import partitions_of
from distributary.pipeline.lake.placement import Placement
from distributary.pipeline.model.address import ANNOTATED, Kind, destination_of
from distributary.pipeline.model.amqp_error import AmqpError

#: Topics whose logs are at hand: to find them takes 5 us, a run may be one message.
_TOPICS_KNOWN = 4_096


class MessageLogs:
    """Logs of messages by the placement, for a gateway that owns `log`; `bare` is the kind of an
    address that doesn't name its kind."""

    def __init__(self, placement: Placement, log: str, bare: Kind) -> None:
        self._log, self._bare = log, bare
        self._logs = lru_cache(_TOPICS_KNOWN)(placement.logs_of)
        self._turn = 0

    def of(self, topic: str | None, received: Received) -> list[str]:
        """Return the log of each message of a run for this topic, or (None) for the address that
        each message names."""
        self._turn += 1
        if topic is not None:
            return self._divided(self._logs(topic), received)
        named = [self._logs_of(*one) for one in addresses(received)]
        if all(len(logs) == 1 for logs in named):
            return [log for log, *_ in named]
        divided = {logs: self._divided(logs, received) for logs in set(named)}
        return [divided[logs][nth] for nth, logs in enumerate(named)]

    def _divided(self, logs: Sequence[str], received: Received) -> list[str]:
        found = keys(received)
        return [logs[part] for part in partitions_of(found, len(logs), self._turn)]

    def _logs_of(self, address: str, annotated: int) -> tuple[str, ...]:
        """Return the logs of the destination that a message names; ours where it names none."""
        destination = destination_of(address, ANNOTATED.get(annotated), self._bare)
        if isinstance(destination, AmqpError):
            return (self._log,)
        return self._logs(destination.topic)
