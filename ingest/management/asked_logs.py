"""Requests for all logs of a lake: a gateway's node answers those for its own log, passes on those
for other logs, and puts lists of all logs together.
"""

import asyncio
from functools import partial

import msgspec
import structlog

from distributary.ingest.management.entities import key_of, queue_of, topic_of
from distributary.ingest.management.lease_requests import LEASE_VERBS, LeaseRequests
from distributary.ingest.management.management_parts import ManagementParts
from distributary.ingest.management.requests import Requests
from distributary.ingest.net.link import Link
from distributary.ingest.net.relayed_link import NotAsked, Relays
from distributary.pipeline.codec.amqp_types import Value
from distributary.pipeline.codec.amqp_writer import Written, write
from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.log_names import MAIN, private_number
from distributary.pipeline.management.answers_of_logs import (
    LOOKING,
    existing,
    is_for_all,
    is_last,
    lacking,
    looking,
    making,
    remaining,
    together,
    topic_in,
    used_first,
)
from distributary.pipeline.management.log_list import (
    ListPart,
    ListPlace,
    LogList,
    Question,
    list_place,
)
from distributary.pipeline.management.management_messages import (
    ABSENT,
    BAD_REQUEST,
    CONFLICT,
    CREATED,
    NOT_IMPLEMENTED,
    OK,
    Answer,
    Entity,
    Request,
    Verb,
    refused,
    request_of,
)
from distributary.pipeline.management.node_answers import NodeAnswer
from distributary.pipeline.model.address import (
    NAME_CHARACTERS_MAX,
    PATTERN_PREFIX,
    PREFIXES,
    Destination,
    Kind,
    kind_of_topic,
)
from distributary.pipeline.model.amqp_error import AmqpError
from distributary.pipeline.model.subscription import SubscriptionKey

_events = structlog.get_logger("gateway")

#: Wildcards in the pattern of a schema.
_WILD = frozenset("*#")
#: Characters of a word of the log: the kind of a destination, and its name.
_WORD_MAX = NAME_CHARACTERS_MAX + max(map(len, (PATTERN_PREFIX, *PREFIXES.values())))


class _All(msgspec.Struct, frozen=True):
    """Each of these logs is asked, and their answers are put together."""

    logs: tuple[str, ...]


class AskedLogs:
    """Finds the logs of a request, and returns their answer."""

    def __init__(
        self, parts: ManagementParts, requests: Requests, leases: LeaseRequests, relays: Relays
    ) -> None:
        self._requests, self._leases, self._relays = requests, leases, relays
        self._directory, self._limits = parts.directory, parts.host.settings.management
        self._style = parts.host.settings.delivery.pattern_style

    async def answer(self, link: Link, request: Request) -> Answer | NodeAnswer:
        """Return the answer of the first log that has the named entity: our own answer, or that of
        the log's owner. A request that only reads, or names a transaction by its global id, goes on
        to the next log when one can't be asked; logs whose owners aren't connected are asked last.
        Any other change fails then: another log's entity of that name may not be the meant one."""
        logs: tuple[str, ...] | _All | Answer | NodeAnswer = self._logs(link, request)
        if isinstance(logs, tuple) and self._may_be_several(request, logs):
            logs = await self._found(link, request, logs)
        match logs:
            case Answer() | NodeAnswer():
                return logs
            case _All(there):
                return await self._everywhere(link, request, there)
        if request.verb is Verb.QUERY:
            return await self._list(link, request, logs)
        on = request.verb in LOOKING or request.entity is Entity.TRANSACTION
        away = {one.log for one in self._relays.owners() if not one.connected and on}
        absent: list[Answer | NodeAnswer] = []
        failures: list[Answer] = []
        for log in sorted(logs, key=away.__contains__):
            found = await self._asked(link, log, request)
            if isinstance(found, NotAsked):
                failures.append(refused(found))
                if not on:
                    break
            elif found.status != ABSENT:
                return found
            else:
                absent.append(found)
        return (failures or absent)[-1]

    def _may_be_several(self, request: Request, logs: tuple[str, ...]) -> bool:
        """Whether a change is of a subscription that may have parts in several of these logs, as
        only its topic tells."""
        named = not request.log and request.entity is Entity.SUBSCRIPTION
        return named and len(logs) > 1 and is_for_all(request)

    async def _found(
        self, link: Link, request: Request, logs: tuple[str, ...]
    ) -> tuple[str, ...] | _All | Answer | NodeAnswer:
        """Return the logs of a subscription, of which our own log has no part, by its topic in the
        first of these logs that has it; or why it isn't found."""
        look = Request(Verb.READ, request.entity, request.name, {}, "")
        for log in logs:
            found = await self._in_log(link, look, log)
            if found.status == OK:
                there = self._relays.logs_of(topic_in(found))
                return _All(there) if len(there) > 1 else (log,)
            if found.status != ABSENT:
                break  # another log's subscription of that name may not be the meant one
        return found

    async def _everywhere(self, link: Link, request: Request, logs: tuple[str, ...]) -> Answer:
        """Ask these logs one after another, and put their answers together."""
        if (look := looking(request)) is not None:
            found = [(log, await self._in_log(link, look, log)) for log in logs]
            if (refusal := existing(request, found)) is not None:
                return refusal
            logs = used_first(found)
        answers: list[tuple[str, Answer | NodeAnswer]] = []
        for log in logs:
            answer = await self._in_log(link, remaining(request, answers), log)
            answers.append((log, answer))
            if is_last(request, answer):
                break
        word = self._word(request)
        if isinstance(word, str) and kind_of_topic(word) is Kind.QUEUE:
            for log in lacking(request, answers):
                answers[logs.index(log)] = log, await self._made(link, request, word, log)
        return together(answers)

    async def _made(
        self, link: Link, request: Request, queue: str, log: str
    ) -> Answer | NodeAnswer:
        """Have the log make its part of the queue, and then the change."""
        made = await self._in_log(link, making(request, queue), log)
        if made.status not in (CREATED, CONFLICT):  # a conflict: it was made meanwhile
            return made
        return await self._in_log(link, request, log)

    async def _in_log(self, link: Link, request: Request, log: str) -> Answer | NodeAnswer:
        """Return this log's answer to a request; a refusal where it can't be asked."""
        found = await self._asked(link, log, msgspec.structs.replace(request, log=log))
        return refused(found) if isinstance(found, NotAsked) else found

    async def _asked(
        self, link: Link, log: str, request: Request
    ) -> Answer | NodeAnswer | NotAsked:
        own, _ = self._relays.logs
        if log == own:
            return await self._here(link, request)
        try:
            request_of(request, 0, "")
        except ValueError as error:
            return Answer(BAD_REQUEST, str(error))
        found = await self._relays.ask(link, log, partial(request_of, request))
        if isinstance(found, AmqpError) and not isinstance(found, NotAsked):
            return refused(found)
        return found

    async def _here(self, link: Link, request: Request) -> Answer:
        user = link.connection.user
        if request.verb in LEASE_VERBS:
            answer = await self._leases.answer(link, request)
        else:
            answer = await self._requests.answer(user, request)
        if request.entity is Entity.NODE and request.verb is Verb.READ:
            answer = self._with_logs(answer)
        _events.debug(
            "management.answered",
            user=user,
            operation=request.verb.value,
            type=request.entity.value,
            name=request.name,
            status=answer.status,
        )
        return answer

    def _with_logs(self, answer: Answer) -> Answer:
        """Add the names of the lake's logs to the gateway's attributes."""
        own, others = self._relays.logs
        if not others or answer.status != OK:
            return answer
        logs: list[Value] = [own or MAIN, *others]
        return Answer(answer.status, answer.description, {**answer.body, "logs": logs})

    # Lists.

    async def _list(self, link: Link, request: Request, logs: tuple[str, ...]) -> Answer:
        """List a part of the entities of these logs."""
        place, most = self._place(request, logs), self._limits.query_count_max
        if isinstance(place, Answer):
            return place
        offset, count = _whole(request, "offset", 0), _whole(request, "count", most)
        part = LogList(tuple(one or MAIN for one in logs), count, offset, place)
        questions = part.first()
        found = await asyncio.gather(*(self._part(link, one, request) for one in questions))
        for nth, (question, answer) in enumerate(zip(questions, found, strict=True)):
            if isinstance(answer, Answer):
                return answer
            if nth:
                part.totalled(question, answer)
            else:
                part.listed(question, answer)
        while (following := part.following()) is not None:
            answer = await self._part(link, following, request)
            if isinstance(answer, Answer):
                return answer
            part.listed(following, answer)
        return msgspec.structs.replace(part.answer(), log="" if logs[1:] else logs[0])

    def _place(self, request: Request, logs: tuple[str, ...]) -> ListPlace | Answer | None:
        text = request.attributes.get("from")
        if not isinstance(text, str):
            return None
        if "offset" in request.attributes:
            return Answer(BAD_REQUEST, "say where the part begins by 'from' or by 'offset'")
        return list_place(text, tuple(one or MAIN for one in logs))

    async def _part(
        self, link: Link, question: Question, request: Request
    ) -> ListPart | str | Answer:
        """Return a log's part of the list; or why it can't be asked; or the answer to an invalid
        request."""
        own, _ = self._relays.logs
        log = own if question.log == (own or MAIN) else question.log
        wait = self._limits.list_wait_ms
        try:
            async with asyncio.timeout(None if log == own else wait / 1_000):
                found = await self._asked(link, log, question.request(request))
        except TimeoutError:
            return f"its owner gave no answer within {wait} ms (management.list_wait_ms)"
        if isinstance(found, NotAsked):
            return found.description
        if found.status == OK:
            return found.list_part() if isinstance(found, NodeAnswer) else _part_of(found)
        if found.status == BAD_REQUEST and (log == own or private_number(own) is not None):
            return Answer(BAD_REQUEST, found.description)
        return found.description or f"its answer has the status {found.status}"

    # The logs of a request.

    def _logs(self, link: Link, request: Request) -> tuple[str, ...] | _All | Answer:
        """Return the logs to ask in turn, until one has the named entity (of a list: all of them);
        or the logs that all make a change; or why no log is asked."""
        own, others = self._relays.logs
        there = others if private_number(own) is not None else (own or MAIN, *others)
        if request.log and request.log not in (own, *there):
            known = ", ".join(sorted(there))
            return Answer(ABSENT, f"there is no log '{request.log}'; there are {known}")
        if not others:
            return (own,)
        if request.log:
            return (request.log,)
        relayed = link.attach.relayed is not None  # never relayed a second time
        if request.verb is Verb.QUERY:
            return (own,) if relayed else tuple(sorted(there))
        if request.entity in (Entity.NODE, Entity.TRANSACTION):
            # The log of a declared transaction is known here; a prepared one may be in any log.
            ours = relayed or request.entity is Entity.NODE or request.verb is Verb.PREPARE
            return (own,) if ours else (own, *others)
        return self._naming(request, relayed=relayed)

    def _naming(self, request: Request, *, relayed: bool) -> tuple[str, ...] | _All | Answer:
        """Return the logs of the named entity."""
        own, others = self._relays.logs
        try:
            word = self._word(request)
        except InvalidRequest:
            return (own,)  # our own answer tells the error
        if word is None:
            return (own,)
        if isinstance(word, str) and len(word) > _WORD_MAX:  # finding its logs would take long
            text = f"a topic's or queue's name has {NAME_CHARACTERS_MAX} characters at most"
            return Answer(BAD_REQUEST, text)
        if not isinstance(word, SubscriptionKey):
            logs = self._relays.logs_of(word)
        elif (found := self._directory.get(word)) is not None:
            logs = self._relays.beside(found.definition.topic) or (own,)
        else:
            return (own,) if relayed else (*others, own)
        if len(logs) > 1:
            return self._several(request, logs, relayed=relayed)
        return (own,) if relayed else logs

    def _several(
        self, request: Request, logs: tuple[str, ...], *, relayed: bool
    ) -> tuple[str, ...] | _All | Answer:
        """Return the logs of an entity that is in several logs at once, or the refusal."""
        own, _ = self._relays.logs
        if request.verb in LOOKING:  # one log has all that is asked for, our own if it has it
            return (own,) if relayed else tuple(sorted(logs, key=own.__ne__))
        if is_for_all(request) and not relayed:
            return _All(logs)
        text = f"'{request.name}' is in the logs {', '.join(logs)}: name one of them in the"
        return Answer(NOT_IMPLEMENTED, f"{text} application property 'log'")

    def _word(self, request: Request) -> str | SubscriptionKey | None:
        """Return the log's word for the destination of a request; or the key of a subscription that
        may be in any log; None for an invalid name. Raises InvalidRequest."""
        found: Destination | AmqpError
        match request.entity:
            case Entity.TOPIC:
                found = topic_of(request.name, self._style)
            case Entity.QUEUE:
                found = queue_of(request.name)
            case Entity.SCHEMA:
                name = request.name.removeprefix("topic://")
                return PATTERN_PREFIX + name if _WILD & set(name.split(".")) else name
            case _:
                key = key_of(request.entity, request.name)
                if isinstance(key, AmqpError):
                    return None
                if key.queue:
                    kind = Kind.QUEUE if key.durable else Kind.TEMPORARY_QUEUE
                    return Destination(kind, key.name).topic
                if request.verb is not Verb.CREATE:
                    return key
                found = topic_of(str(request.attributes["topic"]), self._style)
        return None if isinstance(found, AmqpError) else found.topic


def _part_of(answer: Answer) -> ListPart:
    """Return our own log's part of a list."""
    names, rows = answer.body["attributeNames"], answer.body["results"]
    total = answer.body["total"]
    assert isinstance(names, list), names  # noqa: S101 (`Requests` has made it)
    assert isinstance(rows, list), rows  # noqa: S101
    assert isinstance(total, int), total  # noqa: S101
    return ListPart(tuple(map(str, names)), tuple(Written(write(one)) for one in rows), total)


def _whole(request: Request, name: str, default: int) -> int:
    value: Value = request.attributes.get(name, default)
    assert isinstance(value, int), value  # noqa: S101 (`management.parse` has looked)
    return value
