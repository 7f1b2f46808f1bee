"""A request about an entity that is in several logs: the logs that answer it, and their answers as
one.

Rule 1: a request that only reads is answered by one log.
Rule 2: a change is made in each log; the answer has each log's sentence, and fails where one
        failed.
Rule 3: a request that has a meaning in one log only, for example with sequences, must name it.
"""

from collections.abc import Sequence

from distributary.pipeline.codec.amqp_types import Timestamp
from distributary.pipeline.management.management_messages import (
    FAILED,
    Answer,
    Request,
    Verb,
)
from distributary.pipeline.management.node_answers import NodeAnswer

#: Verbs that change nothing.
LOOKING = frozenset({Verb.READ, Verb.OWED, Verb.HELD})
_CHANGES = frozenset(
    {
        *(Verb.CREATE, Verb.UPDATE, Verb.DELETE, Verb.PAUSE, Verb.RESUME),
        *(Verb.PURGE, Verb.REDRIVE, Verb.CLOSE),
    }
)
#: Verbs that go to a place. A time, or the end, is a place in every log; a sequence isn't.
_MOVES = frozenset({Verb.REWIND, Verb.SKIP})


def is_for_all(request: Request) -> bool:
    """Whether the request can be done in each log of the entity that it names."""
    to = request.attributes.get("to")
    return request.verb in _CHANGES or (
        request.verb in _MOVES and (to is None or isinstance(to, Timestamp))
    )


def together(answers: Sequence[tuple[str, Answer | NodeAnswer]]) -> Answer:
    """Return the logs' answers as one, with the worst status and the sum of dropped messages."""
    text = "; ".join(f"{log}: {one.description}" for log, one in answers)
    counts = [_dropped(one) for _, one in answers]
    dropped = [count for count in counts if count is not None]
    body = {"dropped": sum(dropped)} if dropped else {}
    return Answer(max((one.status for _, one in answers), default=FAILED), text, body, log="")


def _dropped(answer: Answer | NodeAnswer) -> int | None:
    """Return the number of dropped messages, if the answer has it."""
    said = answer.body.get("dropped") if isinstance(answer, Answer) else answer.number("dropped")
    return said if isinstance(said, int) else None
