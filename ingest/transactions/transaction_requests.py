"""Requests to `$management` about transactions that are prepared, and those that our log has
decided and other logs must still commit: give one a global id, end one, list them.

Rule 1: the user who prepared a transaction may see it and end it. A user who may `manage` all of
        its topics (every topic and queue, if it is of several logs) sees it, too, and ends it with
        `force`: the transaction manager learns that late or never. Other users get the answer for
        an unknown id; each user has global ids of its own.
Rule 2: a decided transaction is seen by its user, and by users who may `manage` every topic and
        queue: it is done here, and its topics aren't known any more. Only a user who may manage
        everything gives up the logs that must still commit it, by COMMIT with `force`.
"""

from typing import TypeAlias

from distributary.ingest.runtime.turns import TaskTurns
from distributary.ingest.security.access import Access
from distributary.ingest.security.gateway_login import GATEWAY
from distributary.ingest.transactions.coordinator import Coordinator
from distributary.ingest.transactions.prepared_service import PreparedOne
from distributary.pipeline.amqp.coordinator_command import NO_NUMBER, number_of
from distributary.pipeline.codec.amqp_types import Timestamp, Value
from distributary.pipeline.codec.quoting import quoted
from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.management.management_messages import (
    ABSENT,
    BAD_REQUEST,
    CONFLICT,
    NO_CONTENT,
    OK,
    Answer,
    Request,
    Verb,
    refused,
)
from distributary.pipeline.model.amqp_error import (
    INVALID_FIELD,
    NOT_FOUND,
    UNAUTHORIZED,
    AmqpError,
)
from distributary.pipeline.subscriptions.permission import Action
from distributary.pipeline.transactions.decisions import Decision, Outcome
from distributary.pipeline.transactions.global_id import OF_LAKES, GlobalId, is_of_lake
from distributary.pipeline.transactions.prepared_transactions import LISTED, State, absent

Waiting: TypeAlias = PreparedOne | Decision

_NAMES = (
    "name",
    "state",
    "user",
    "recorded_at",
    "waits_for",
    "messages",
    "deliveries",
    "bytes",
    "topics",
    "own",
    "log",
)
#: Rights that are looked up in one turn of the loop; and topics of each transaction in a list.
_LOOKED_AT_ONCE = 64


class TransactionRequests:
    """Answers requests about transactions."""

    def __init__(
        self,
        transactions: Coordinator,
        access: Access,
        turns: TaskTurns,
        count_max: int,
        log: str,
    ) -> None:
        """`count_max`: transactions in an answer to QUERY at most; `log` is our log's name."""
        self._transactions, self._prepared = transactions, transactions.prepared
        self._decisions = transactions.decisions
        self._access, self._turns = access, turns
        self._count_max, self._log = count_max, log
        self._looks = 0  #: since the last turn

    async def answer(self, user: str, request: Request) -> Answer:
        """Return the answer, when the state that it reports is durable."""
        try:
            if request.verb is Verb.QUERY:
                return await self._query(user, request)
            id_ = GlobalId.parse(request.name).text
            if user == GATEWAY:
                return await self._answer_gateway(id_, request)
            return await self._answer(user, id_, request)
        except InvalidRequest as error:
            return Answer(BAD_REQUEST, str(error))

    async def _answer(self, user: str, id_: str, request: Request) -> Answer:
        verb = request.verb
        if verb is Verb.PREPARE:
            return self._name(user, id_, request)
        decided = self._decisions.get(id_)
        if decided is not None and self._sees_decided(user, decided):
            if verb is Verb.READ:
                return Answer(OK, "the transaction", self._row(user, decided))
            return await self._give_up(user, decided, request)
        found = await self._meant(user, id_, request.attributes.get("user"))
        if isinstance(found, AmqpError):
            return refused(found)
        own = found.facts.user == user
        if verb is Verb.READ:
            return Answer(OK, "the transaction", self._row(user, found))
        shared = is_of_lake(id_)
        if (shared or not own) and request.attributes.get("force") is not True:
            text = f"the transaction {id_} was prepared by user '{found.facts.user}', whose "
            text += "transaction manager is to end it; say force to end it all the same"
            if shared:
                decider = quoted(GlobalId.parse(id_).decider)
                text = f"the transaction {id_} is of several logs, of which {decider} decides, and "
                text += "ends as that log decides; say force to end it here all the same"
            return refused(AmqpError(UNAUTHORIZED, text))
        commit = verb is Verb.COMMIT
        amqp_error = await self._prepared.end(found, user, commit=commit)
        if amqp_error is not None:
            return refused(amqp_error)
        return Answer(NO_CONTENT, f"{id_} is {'committed' if commit else 'rolled back'}")

    async def _give_up(self, user: str, one: Decision, request: Request) -> Answer:
        """Give up the logs that must still commit a decision, or answer why not. The caller has
        checked that the user sees it."""
        logs = ", ".join(sorted(one.left))
        text = f"the transaction {one.id} is decided, and done in the log {self._log}; it ends by "
        text += f"itself when the owner of each of these answers: {logs}"
        if request.verb is not Verb.COMMIT or request.attributes.get("force") is not True:
            text += "; to wait no more for logs that are lost for good, COMMIT it with force"
            return Answer(CONFLICT, text)
        if not self._access.rights.permissions.everywhere(user, Action.MANAGE):
            text += "; a user who may manage every topic and queue can give them up"
            return refused(AmqpError(UNAUTHORIZED, text))
        if self._decisions.young(one):
            text += "; they can be given up when they have had fleet.owner_wait_ms to answer"
            return Answer(CONFLICT, text)
        self._decisions.give_up(one, user)
        await self._prepared.sure()
        return Answer(NO_CONTENT, f"{one.id} waits no more for {logs}")

    async def _meant(self, user: str, id_: str, of: Value) -> PreparedOne | AmqpError:
        """Return the transaction that a user means by an id: its own, or one that it may manage, of
        the user `of` if that is given."""
        seen = [one for one in self._prepared.get(id_) if await self._sees(user, one)]
        if of is not None:
            seen = [one for one in seen if one.facts.user == of]
        own = [one for one in seen if one.facts.user == user]
        found = own or seen
        if not found:
            return absent(id_)
        if len(found) > 1:
            users = ", ".join(sorted(one.facts.user for one in found))
            text = f"{id_} is prepared by each of the users {users}: give one of them in 'user'"
            return AmqpError(INVALID_FIELD, text)
        return found[0]

    async def _answer_gateway(self, id_: str, request: Request) -> Answer:
        """Answer another gateway, which asks for our decision or tells its log's. An answer that we
        have no decision makes the other log roll back, so only the log's owner may give it: a
        gateway that lost the log unknowingly makes no group durable, and gives no answer."""
        if request.verb is Verb.READ:
            outcome = self._decisions.outcome(id_)
            if outcome is Outcome.OPEN:
                return Answer(CONFLICT, f"{id_} isn't decided yet")
            if outcome is Outcome.COMMITTED:
                return Answer(OK, f"{id_} is to be committed")
            await self._prepared.sure()
            return Answer(ABSENT, f"{id_} is rolled back, or was committed in all of its logs")
        if not is_of_lake(id_) or request.verb not in (Verb.COMMIT, Verb.ROLLBACK):
            return Answer(BAD_REQUEST, "gateways only end or read transactions over several logs")
        commit = request.verb is Verb.COMMIT
        amqp_error = await self._prepared.end_all(id_, GATEWAY, commit=commit)
        if amqp_error is None:
            return Answer(NO_CONTENT, f"{id_} is {'committed' if commit else 'rolled back'}")
        if amqp_error.condition == NOT_FOUND:
            await self._prepared.sure()
        return refused(amqp_error)

    def _name(self, user: str, id_: str, request: Request) -> Answer:
        if is_of_lake(id_):
            text = f"the format {OF_LAKES} is of ids that gateways make"
            return Answer(BAD_REQUEST, f"{text} for transactions over several logs: take another")
        said = request.attributes["transaction"]
        number = number_of(said)
        if number == NO_NUMBER:
            return Answer(BAD_REQUEST, "'transaction' is no id of a declared transaction: 8 bytes")
        works = self._transactions.name(user, number, id_)
        if isinstance(works, AmqpError):
            return refused(works)
        text = f"the commit of the transaction prepares it as {id_}"
        if not works:
            text += ", if anything is done in it; nothing was until now"
        return Answer(OK, text, {"works": works})

    async def _query(self, user: str, request: Request) -> Answer:
        said = request.attributes
        offset, count = said.get("offset", 0), said.get("count", self._count_max)
        assert isinstance(offset, int), offset  # noqa: S101 (`management.parse` has looked)
        assert isinstance(count, int), count  # noqa: S101
        if count > self._count_max:
            text = f"'count' is {count}; it may be {self._count_max} (management.query_count_max)"
            return Answer(BAD_REQUEST, f"{text}, and 'offset' leads on")
        wanted = said.get("attributeNames") or list[Value](_NAMES)
        assert isinstance(wanted, list), wanted  # noqa: S101
        if strange := [name for name in wanted if name not in _NAMES]:
            there_are = ", ".join(_NAMES)
            text = f"'attributeNames' has {quoted(strange[0])}; there are {there_are}"
            return Answer(BAD_REQUEST, text)
        every: list[Waiting] = [*self._prepared.listed(), *self._decisions.waiting()]
        seen = [one for one in sorted(every, key=_recorded_at) if await self._sees(user, one)]
        await self._turns.turn()
        seen = [one for one in seen if _waits(one)]  # some have ended in these turns
        rows = [self._row(user, one, _LOOKED_AT_ONCE) for one in seen[offset : offset + count]]
        results: list[Value] = [[row[str(name)] for name in wanted] for row in rows]
        body: dict[str, Value] = {"attributeNames": wanted, "results": results, "total": len(seen)}
        return Answer(OK, f"{len(rows)} of {len(seen)}", body)

    async def _sees(self, user: str, one: Waiting) -> bool:
        if isinstance(one, Decision):
            await self._look()
            return self._sees_decided(user, one)
        if one.facts.user == user:
            return True
        may = self._access.rights.permissions
        if one.work.decides or not one.facts.topics:  # those in other logs aren't known here
            await self._look()
            return may.everywhere(user, Action.MANAGE)
        for topic in one.facts.topics:
            await self._look()
            if not may.allow(user, Action.MANAGE, topic):
                return False
        return True

    def _sees_decided(self, user: str, one: Decision) -> bool:
        """Whether the user sees a decision; without a turn of the loop, so it is still there when
        the caller ends it."""
        return one.user == user or self._access.rights.permissions.everywhere(user, Action.MANAGE)

    async def _look(self) -> None:
        """Count a look-up of rights; give the loop a turn after some of them."""
        self._looks = (self._looks + 1) % _LOOKED_AT_ONCE
        if not self._looks:
            await self._turns.turn()

    def _row(self, user: str, one: Waiting, topics_max: int | None = None) -> dict[str, Value]:
        """Return a transaction's row, with `topics_max` topics at most. A decided one has only its
        record, which doesn't name topics."""
        row: dict[str, Value] = {
            "name": one.id,
            "state": one.state.value,
            "recorded_at": Timestamp(_recorded_at(one) // 1_000),
            "log": self._log,
        }
        if isinstance(one, Decision):
            left = list[Value](sorted(one.left))
            about = dict[str, Value].fromkeys(("messages", "deliveries", "bytes", "topics"))
            return row | about | {"user": one.user, "waits_for": left, "own": False}
        facts, shared = one.facts, is_of_lake(one.id)
        waits = shared and one.state is State.PREPARED
        return row | {
            "user": facts.user,
            "waits_for": [GlobalId.parse(one.id).decider] if waits else [],
            "messages": facts.messages,
            "deliveries": facts.deliveries,
            "bytes": facts.bytes,
            "topics": list[Value](facts.topics[:topics_max]),
            "own": facts.user == user and not shared,
        }


def _waits(one: Waiting) -> bool:
    return one.commits if isinstance(one, Decision) else one.state in LISTED


def _recorded_at(one: Waiting) -> int:
    return one.at if isinstance(one, Decision) else one.facts.at
