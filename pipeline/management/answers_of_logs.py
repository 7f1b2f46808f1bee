"""A request about what lies in several logs at once: who answers it, and what the answers say
together.

Rule 1: who only looks has the answer of one log.
Rule 2: a change is made in each log; the answer says of each what became of it there, and fails
        where one failed.
Rule 3: what can be meant of one log alone, such as sequences, must name it.
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
#: Those that go to a place: a time, or the end, is one in each log.
_MOVES = frozenset({Verb.REWIND, Verb.SKIP})


def is_for_all(request: Request) -> bool:
    """Whether it can be done in each log of what it names."""
    to = request.attributes.get("to")
    return request.verb in _CHANGES or (
        request.verb in _MOVES and (to is None or isinstance(to, Timestamp))
    )


def together(answers: Sequence[tuple[str, Answer | NodeAnswer]]) -> Answer:
    """The answer of all logs. The worst status counts; messages that were dropped are summed."""
    text = "; ".join(f"{log}: {one.description}" for log, one in answers)
    counts = [_dropped(one) for _, one in answers]
    dropped = [count for count in counts if count is not None]
    body = {"dropped": sum(dropped)} if dropped else {}
    return Answer(max((one.status for _, one in answers), default=FAILED), text, body, log="")


def _dropped(answer: Answer | NodeAnswer) -> int | None:
    """How many messages were dropped, if the answer says it."""
    said = answer.body.get("dropped") if isinstance(answer, Answer) else answer.number("dropped")
    return said if isinstance(said, int) else None
