"""Messages between the logs of a lake about transactions over several of them.

Rule 1: a commit that our log has decided is told to each other log with a branch of it until that
        log has committed; a rollback is told once.
Rule 2: for work that is prepared here and isn't told its decision, the deciding log is asked again
        and again, a few branches at a time: nothing else ends it but an operator's force.
Rule 3: a private log ends with its gateway, and its decisions and prepared work with it: a private
        log without an owner is neither told nor waited for.

All methods run on the loop's thread.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import assert_never

import structlog

from distributary.ingest.net.relayed_link import NotAsked, Relays
from distributary.ingest.runtime.host import Host
from distributary.ingest.runtime.workers import WhileWanted, watched
from distributary.ingest.security.gateway_login import GATEWAY
from distributary.ingest.transactions.coordinator import Coordinator
from distributary.ingest.transactions.prepared_service import PreparedOne
from distributary.pipeline.log_names import private_number
from distributary.pipeline.management import management_messages
from distributary.pipeline.management.management_messages import (
    ABSENT,
    NO_CONTENT,
    Entity,
    Request,
    Verb,
    request_of,
)
from distributary.pipeline.model.amqp_error import LIMIT_EXCEEDED, AmqpError
from distributary.pipeline.transactions.decisions import Decision, Outcome, Questions
from distributary.pipeline.transactions.global_id import GlobalId, branch_id, decision_of

_events = structlog.get_logger("gateway")

#: Questions that begin together, each some tenths of a millisecond of both gateways. They are
#: repeated every `fleet.decision_ask_ms`, as long as a transaction manager is silent.
QUESTIONS = 64


class OtherLogs:
    """Tells and asks other logs, as long as the gateway serves; idle where there is one log."""

    def __init__(
        self,
        host: Host,
        transactions: Coordinator,
        relays: Relays,
        finish_pass: Callable[[], None],
    ) -> None:
        """`finish_pass` hands on the frames that answers cause."""
        self._loop, self._relays, self._finish_pass = host.loop, relays, finish_pass
        self._prepared, self._decisions = transactions.prepared, transactions.decisions
        self._log, others = relays.logs
        self._seconds = host.settings.fleet.decision_ask_ms / 1_000
        self._tasks: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._questions = Questions(QUESTIONS)
        self._work = WhileWanted(self._run, lambda: bool(others), host.loop, "shared transactions")
        self._work.begin()

    def close(self) -> None:
        """Stop telling and asking."""
        self._work.close()
        for task in self._tasks.values():
            task.cancel()

    async def _run(self) -> None:
        asks_at = self._loop.time()
        while True:
            self._decisions.due.clear()
            for decision in self._decisions.telling():
                for log in tuple(decision.left):
                    self._begin(decision.id, log, partial(self._tell, decision, log))
            if (now := self._loop.time()) >= asks_at:
                asks_at = now + self._seconds
                waiting = self._prepared.undecided(int(self._seconds * 1_000_000))
                for one in self._questions.of(waiting):
                    self._begin(one.id, "", partial(self._ask, one))
            with suppress(TimeoutError):
                await asyncio.wait_for(self._decisions.due.wait(), asks_at - now)

    def _begin(self, id_: str, log: str, work: Callable[[], Coroutine[None, None, None]]) -> None:
        """Begin this work, unless it is under way."""
        if (id_, log) not in self._tasks:
            task = self._loop.create_task(watched(work, self._loop, "shared transactions"))
            self._tasks[id_, log] = task
            task.add_done_callback(lambda _: self._tasks.pop((id_, log)))

    # What our log has decided.

    async def _tell(self, decision: Decision, log: str) -> None:
        commits, waits = decision.commits, False
        while not await self._told(decision.id, log, commit=commits) and decision.commits:
            if not waits:  # once, however long the log's owner is away
                _events.warning("transaction.waits", transaction=decision.id, log=log)
            waits = True
            await asyncio.sleep(self._seconds)
        self._decisions.told(decision.id, log)
        self._finish_pass()

    async def _told(self, id_: str, log: str, *, commit: bool) -> bool:
        """Tell a log the decision; return whether it has no open branch of it any more."""
        branch = branch_id(id_, self._log)
        if log == self._log:
            await self._prepared.end_all(branch, GATEWAY, commit=commit)
            return True
        verb = Verb.COMMIT if commit else Verb.ROLLBACK
        answer = await self._asked(log, verb, branch)
        return answer in (NO_CONTENT, ABSENT, None)

    async def _asked(self, log: str, verb: Verb, name: str) -> int | AmqpError | None:
        """Ask the log's owner; return its status, or why there is none; None: the log has
        ended."""
        request = Request(verb, Entity.TRANSACTION, name, {})
        found = await self._relays.ask_owner(log, partial(request_of, request))
        if not isinstance(found, AmqpError):
            return found.status
        full = found.condition == LIMIT_EXCEEDED
        gone = isinstance(found, NotAsked) and not full and private_number(log) is not None
        return None if gone else found

    # What other logs decide.

    async def _ask(self, one: PreparedOne) -> None:
        outcome = await self._outcome(GlobalId.parse(one.id))
        match outcome:
            case Outcome.OPEN:
                return  # it is asked for again
            case Outcome.COMMITTED | Outcome.ROLLED_BACK:
                commit = outcome is Outcome.COMMITTED
                await self._prepared.end(one, GATEWAY, commit=commit)
                self._finish_pass()
            case _ as never:
                assert_never(never)

    async def _outcome(self, branch: GlobalId) -> Outcome:
        decision, log = decision_of(branch), branch.decider
        if log == self._log:
            return self._decisions.outcome(decision)
        match await self._asked(log, Verb.READ, decision):
            case management_messages.OK:
                return Outcome.COMMITTED
            case management_messages.ABSENT | None:
                return Outcome.ROLLED_BACK
            case _:
                return Outcome.OPEN
