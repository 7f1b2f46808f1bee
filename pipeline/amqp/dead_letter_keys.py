"""The message annotations in which a dead letter says where it comes from and why: their keys.

Spark's views read them, too, so they stand where no library is imported.
"""

from distributary.pipeline.codec.amqp_types import Symbol

SUBSCRIPTION = Symbol("x-opt-dead-letter-subscription")
TOPIC = Symbol("x-opt-dead-letter-topic")
SEQUENCE = Symbol("x-opt-dead-letter-sequence")
REASON = Symbol("x-opt-dead-letter-reason")
ATTEMPTS = Symbol("x-opt-dead-letter-attempts")
AT = Symbol("x-opt-dead-letter-at")
DESCRIPTION = Symbol("x-opt-dead-letter-description")
