"""Runs of messages and of outcomes, in the form in which the pump returns them."""

import msgspec

from distributary.pipeline.model.message import PublishBatch
from distributary.pipeline.sequences.sequence_set import Run


class Received(msgspec.Struct, frozen=True, eq=False):
    """Messages of one link, in their order, and the deliveries that still wait for their outcome.

    The arrays are as in `PublishBatch`. `deliveries` holds one address per message, 0 where the
    sender waits for no outcome (presettled, or non-persistent and accepted already); `unsettled`
    counts the others. `transaction` is the one in which all messages were sent, 0: in none.

    `to_at` and `to_size` are the place of `properties.to` in each message as uint32 arrays; `id_at`
    and `id_size` that of the value by which duplicates are found, with its constructor: the
    annotation `x-opt-duplicate-id`, else `properties.message-id`; a size of 0: there is none.
    """

    link: int
    count: int
    blob: bytes
    lengths: bytes
    durable: bytes
    priority: bytes
    ttl: bytes
    deliveries: bytes
    unsettled: int
    to_at: bytes
    to_size: bytes
    id_at: bytes = b""
    id_size: bytes = b""
    expires_at: bytes = b""
    deliver_at: bytes = b""
    transaction: int = 0
    plain: bool = False

    def run(self, topic: str) -> PublishBatch:
        return PublishBatch(
            topic,
            self.count,
            self.blob,
            self.lengths,
            self.durable,
            self.priority,
            self.ttl,
            self.expires_at,
            self.deliver_at,
            self.plain,
        )


class Outcomes(msgspec.Struct, frozen=True):
    """The outcome that the peer of an outgoing link has given to a run of deliveries.

    `confirm` has the addresses of the deliveries if the peer waits for our settlement;
    `transaction` is the one in which the outcome was given, 0: in none.
    """

    link: int
    delivered_at: int
    run: Run
    state: int
    failed: bool
    undeliverable: bool
    confirm: bytes
    transaction: int = 0
