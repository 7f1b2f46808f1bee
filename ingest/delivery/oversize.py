"""Messages that are larger than a consumer takes: its link ends before such a message.

Earlier messages are delivered, and the consumer may still settle those in flight. The large message
goes to another consumer that takes it.
"""

from functools import partial

from distributary.ingest.delivery.consumer import Consumer
from distributary.ingest.native import pump
from distributary.pipeline.dispatch.dispatcher import Deliver
from distributary.pipeline.model.outcome import Outcome
from distributary.pipeline.model.record_batch import RecordBatch
from distributary.pipeline.sequences.sequence_set import Run


def fitting(consumer: Consumer, batch: RecordBatch, deliver: Deliver, now: int) -> Run:
    """Return the part of a delivery before the first message that is too large for the consumer.
    The rest is released for other consumers, and this link gets no more."""
    link, run = consumer.link, deliver.run
    fits, size = 0, 0
    if not consumer.too_large:
        fits, size = pump.fitting(batch, run, deliver.delivery_count, link.message_bytes_max)
    if fits == len(run):
        return run
    if not consumer.too_large:
        consumer.too_large = (
            f"message {run[fits]} has {size} bytes, link '{link.name}' takes "
            f"{link.message_bytes_max}"
        )
    dispatcher = consumer.subscription.dispatcher
    dispatcher.settle(consumer.number, run[fits:], Outcome.RELEASED, now=now, delivered_at=now)
    dispatcher.credit(consumer.number, 0)
    return run[:fits]


def end_if_empty(consumer: Consumer) -> None:
    """End the link of a consumer whose next message is too large, when nothing is in flight to
    it."""
    link = consumer.link
    if not consumer.too_large or consumer.left:
        return
    if consumer.subscription.dispatcher.unsettled(consumer.number):
        return
    link.let_go()
    end = partial(link.end, "amqp:link:message-size-exceeded", consumer.too_large)
    link.when_answered(end)
