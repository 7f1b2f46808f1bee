"""A request about an entity that is in several logs: the logs that answer it, and their answers as
one.

Rule 1: a request that only reads is answered by one log.
Rule 2: a change is made in each log; the answer has each log's sentence and the sums of their
        counts, and fails where one failed.
Rule 3: a request that has a meaning in one log only, for example with sequences, must name it.
Rule 4: a partitioned queue is there if any of its logs has it: its first message makes it in one
        alone. A pause or a policy makes it in the logs that lack it, a creation is refused before
        it makes any part, and any other change has nothing to do there.
Rule 5: a most (`max`) is of all logs together.
Rule 6: a change is made in the same logs from any gateway: where none of a subscription's parts is
        at hand, the topic in another log's answer tells them.
Rule 7: a deletion asks the logs first that will refuse it, and ends with the first refusal.
"""

from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from distributary.pipeline.codec.amqp_types import Timestamp
from distributary.pipeline.codec.amqp_writer import Writable
from distributary.pipeline.management.management_messages import (
    ABSENT,
    CONFLICT,
    FAILED,
    OK,
    Answer,
    Entity,
    Request,
    Verb,
)
from distributary.pipeline.management.node_answers import NodeAnswer

#: Answers of logs, each with the log's name.
LogAnswers: TypeAlias = Sequence[tuple[str, Answer | NodeAnswer]]

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
#: Verbs whose effect must hold for messages to come, too.
_LASTING = frozenset({Verb.PAUSE, Verb.UPDATE})
#: Numbers of answers that are summed up.
_COUNTS = ("dropped", "redriven", "stayed", "misfits")
#: Numbers of a READ for which a deletion without force is refused, unless they are 0.
_USES = ("backlog", "consumers", "producers")


def is_for_all(request: Request) -> bool:
    """Whether the request can be done in each log of the entity that it names."""
    to = request.attributes.get("to")
    return request.verb in _CHANGES or (
        request.verb in _MOVES and (to is None or isinstance(to, Timestamp))
    )


def remaining(request: Request, answers: LogAnswers) -> Request:
    """Return the request for the next log, after these answers: its `max` is what they leave."""
    most = request.attributes.get("max")
    if not isinstance(most, int):
        return request
    done = sum(_count(one, "redriven") or 0 for _, one in answers)
    attributes = {**request.attributes, "max": max(most - done, 0)}
    return msgspec.structs.replace(request, attributes=attributes)


def lacking(request: Request, answers: LogAnswers) -> list[str]:
    """Return the logs in which a partitioned queue must be made before this change, by rule 4:
    another log has it, and theirs is the answer that it is absent."""
    absent = _absent(answers)
    return absent if request.verb in _LASTING and len(absent) < len(answers) else []


def making(request: Request, queue: str) -> Request:
    """Return the request that makes a queue's part in the log that `request` asks."""
    return Request(Verb.CREATE, Entity.QUEUE, queue, {}, request.log)


def looking(request: Request) -> Request | None:
    """Return the request that asks a log for what a creation would make, or a deletion delete; None
    for other changes, for a deletion by force, and for topics, which aren't made."""
    deletes = request.verb is Verb.DELETE and not request.attributes.get("force")
    if request.entity is Entity.TOPIC or not (deletes or request.verb is Verb.CREATE):
        return None
    return Request(Verb.READ, request.entity, request.name, {}, request.log)


def existing(request: Request, found: LogAnswers) -> Answer | None:
    """Return the refusal of a creation, if any log has it by these answers to `looking`."""
    there = [log for log, one in found if one.status == OK]
    if request.verb is not Verb.CREATE or not there:
        return None
    text = f"there is a {request.entity} {request.name} already"
    return Answer(CONFLICT, f"{', '.join(there)}: {text}", log="")


def used_first(found: LogAnswers) -> tuple[str, ...]:
    """Return the logs by these answers to `looking`, those first that will refuse a deletion."""

    def unused(answer: Answer | NodeAnswer) -> bool:
        return not any(_count(answer, name) for name in _USES)

    return tuple(log for log, one in sorted(found, key=lambda pair: unused(pair[1])))


def is_last(request: Request, answer: Answer | NodeAnswer) -> bool:
    """Whether the logs after this one aren't asked: a refused deletion takes no more parts."""
    return request.verb is Verb.DELETE and answer.status == CONFLICT


def together(answers: LogAnswers) -> Answer:
    """Return the logs' answers as one, with the sums of their counts and the worst status; by rule
    4 that of logs without the entity counts only where all are without it."""
    text = "; ".join(f"{log}: {one.description}" for log, one in answers)
    absent = _absent(answers)
    there = [one for log, one in answers if log not in absent] or [one for _, one in answers]
    body: dict[str, Writable] = {}
    for name in _COUNTS:
        found = [count for _, one in answers if (count := _count(one, name)) is not None]
        if found:
            body[name] = sum(found)
    return Answer(max((one.status for one in there), default=FAILED), text, body, log="")


def topic_in(answer: Answer | NodeAnswer) -> str:
    """Return the topic in the answer to a READ of a subscription; empty if there is none."""
    said = answer.body.get("topic") if isinstance(answer, Answer) else answer.text("topic")
    return said if isinstance(said, str) else ""


def _absent(answers: LogAnswers) -> list[str]:
    return [log for log, one in answers if one.status == ABSENT]


def _count(answer: Answer | NodeAnswer, name: str) -> int | None:
    """Return a number of the answer, if the answer has it."""
    said = answer.body.get(name) if isinstance(answer, Answer) else answer.number(name)
    return said if isinstance(said, int) else None
