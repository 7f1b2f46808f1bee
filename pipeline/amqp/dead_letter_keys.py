"""Keys of the message annotations in which a dead letter has its origin and reason.

Spark's views read them, too, so this module imports no library.
"""

from distributary.pipeline.codec.amqp_types import Symbol

SUBSCRIPTION = Symbol("x-opt-dead-letter-subscription")
TOPIC = Symbol("x-opt-dead-letter-topic")
SEQUENCE = Symbol("x-opt-dead-letter-sequence")
REASON = Symbol("x-opt-dead-letter-reason")
ATTEMPTS = Symbol("x-opt-dead-letter-attempts")
AT = Symbol("x-opt-dead-letter-at")
DESCRIPTION = Symbol("x-opt-dead-letter-description")
