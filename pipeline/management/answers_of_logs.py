"""A request about what lies in several logs at once: who answers it, and what the answers say
together.

Rule 1: who only looks has the answer of one log.
Rule 2: a change is made in each log; the answer says of each what became of it there, and fails
        where one failed.
Rule 3: what can be meant of one log alone, such as sequences, must name it.
"""

from collections.abc import Sequence

from distributary.pipeline.codec.amqp_types import Map, Timestamp
from distributary.pipeline.codec.sections import decode
from distributary.pipeline.management.management_messages import (
    FAILED,
    Answer,
    Request,
    Verb,
    status_of,
)

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


def together(answers: Sequence[tuple[str, Answer | bytes]]) -> Answer:
    """The answer of all logs. The worst status counts; messages that were dropped are summed."""
    read = [(log, one if isinstance(one, Answer) else _read(one)) for log, one in answers]
    text = "; ".join(f"{log}: {one.description}" for log, one in read)
    dropped = [count for _, one in read if isinstance(count := one.body.get("dropped"), int)]
    body = {"dropped": sum(dropped)} if dropped else {}
    return Answer(max((one.status for _, one in read), default=FAILED), text, body)


def _read(answer: bytes) -> Answer:
    """As much of an encoded answer as counts here."""
    message = decode(answer)
    said = message.application_properties["statusDescription"].value
    pairs = message.body.value.pairs if isinstance(message.body.value, Map) else ()
    dropped = dict(pairs).get("dropped")
    return Answer(
        status_of(answer),
        said if isinstance(said, str) else "",
        {"dropped": dropped} if isinstance(dropped, int) else {},
    )
