"""A transaction over three logs, played: its client's gateway, the logs' owners that are lost,
paused and followed by others, and what they say to each other, which is heard late or never. With a
transaction manager the log that decides prepares its own part, too, and the manager says until it
is heard what becomes of it.

An owner of before that goes on says what it knows, where it needn't write for that. A connection to
it may stand for as long as it likes.
"""

from collections.abc import Callable, Sequence
from typing import Any

from distributary.pipeline.model.amqp_error import AmqpError
from distributary.pipeline.transactions import shared_end
from distributary.pipeline.transactions.decisions import Decisions, Event, Outcome, State, Step
from distributary.pipeline.transactions.global_id import decision_id
from distributary.pipeline.transactions.shared_end import SharedEnd
from distributary.pipeline.transactions.transaction import InDoubt

ID = decision_id(b"unique")
LOST = AmqpError("amqp:transaction:unknown-id", "the owner was lost")
DOUBT = InDoubt("nobody knows")
DECIDER, *OTHERS = LOGS = ("a", "b", "c")
#: What a log that has prepared may say in the end.
ENDS = ([], ["prepared"], ["prepared", "committed"], ["prepared", "rolled_back"])


class Process:
    """An owner of one log, by the state in its memory. `live`: the gateway's part is open there.
    It learns by a write whether it still owns the log."""

    def __init__(self, log: str, records: list[str]) -> None:
        self.log, self.paused, self.live = log, False, False
        self.decisions = Decisions(9)
        self.prepared = records[-1:] == ["prepared"]
        self.held = records == ["held"]  #: its own part waits for the transaction manager
        if self.held:
            self.decisions.reopen(ID, tuple(OTHERS))
        if records[-1:] == ["decided"]:
            self.decisions.restore(ID, tuple(OTHERS), "", 0)

    def lose_part(self) -> None:
        """Its peer is gone, or it is rolled back."""
        if self.live:
            self.live = False
            found = self.decisions.get(ID)
            if found is not None and found.state is State.LIVE:
                found.step(Event.UNDO)


class Said:
    """Something on its way to a process, by another one or (None) the gateway."""

    def __init__(self, to: Process, what: str, by: Process | None) -> None:
        self.to, self.what, self.by = to, what, by


class World:
    """`draw` gives one of some things."""

    def __init__(self, draw: Callable[[Sequence[Any]], Any]) -> None:
        self.draw = draw
        #: What a transaction manager wants of what is prepared; empty: there is none.
        self.verdict = draw(["", "", "decided", "rolled_back"])
        self.disks: dict[str, list[str]] = {log: [] for log in LOGS}
        self.owners = {log: Process(log, []) for log in LOGS}
        for one in self.owners.values():
            one.live = True
        #: With those who owned the logs before all of it, and don't know that they are followed.
        self.all = [*self.owners.values(), *(Process(log, []) for log in LOGS)]
        #: With whom the gateway has the transaction: a later owner knows nothing of it.
        self.peers = dict(self.owners)
        self.wire: list[Said] = []
        self.end = SharedEnd(len(OTHERS))
        self.asked: set[str] = set()  #: logs whose answer the gateway waits for
        self.replies: list[tuple[str, AmqpError | None]] = []
        self.heard = ""

    def live(self, steps: int) -> str:
        """So many things happen, then all is well again. What the client heard."""
        self.ask(DECIDER, "name")
        acts = [self.arrives] * 6 + [self.the_gateway_hears] * 3 + [self.tells, self.asks] * 2
        acts += [self.is_lost, self.is_paused, self.goes_on, self.is_followed]
        acts += [self.the_gateway_loses_one, self.the_gateway_is_lost]
        acts += [self.the_manager_says] * (2 if self.verdict else 0)
        for _ in range(steps):
            self.draw(acts)()
            self.check()
        self.recover()
        return self.heard

    # The gateway.

    def ask(self, log: str, what: str) -> None:
        self.asked.add(log)
        self.wire.append(Said(self.peers[log], what, None))

    def the_gateway_hears(self) -> None:
        if self.replies:
            self.answer(*self.replies.pop(0))

    def answer(self, log: str, ending: AmqpError | InDoubt | None) -> None:
        if log not in self.asked:
            return
        self.asked.discard(log)
        match self.end.answered(ending):
            case shared_end.Step.PREPARE:
                for other in OTHERS:
                    self.ask(other, "prepare")
            case shared_end.Step.DECIDE:
                self.ask(DECIDER, "decide")
            case shared_end.Step.UNDO:
                self.ask(DECIDER, "undo")
            case shared_end.Step.UNDO_ALL:
                for each in LOGS:
                    self.ask(each, "undo")
            case shared_end.Step.ANSWER:
                said = self.end.answer
                doubts = "nobody knows" if isinstance(said, InDoubt) else "rolled back"
                self.heard = "committed" if said is None else doubts

    # The transaction manager.

    def the_manager_says(self) -> None:
        """Send the verdict to the process that it takes for the log's owner. A transaction that it
        doesn't know as prepared is rolled back."""
        what = self.verdict if self.heard == "committed" else "rolled_back"
        if self.heard:
            self.wire.append(Said(self.connected(DECIDER), f"manager: {what}", None))

    def managed(self, one: Process, what: str) -> None:
        """The log that decides hears it, and ends its own part so."""
        if not one.held:
            return
        found = one.decisions.get(ID)
        assert found is not None
        one.held = False
        if what == "decided":
            found.step(Event.COMMIT)
            if self.write(one, "decided"):
                found.step(Event.DURABLE)
        elif self.write(one, "rolled_back"):
            found.step(Event.UNDO)

    # What owners do.

    def write(self, one: Process, record: str = "") -> bool:
        """Whether it is durable: of an owner of before nothing is."""
        if self.owners[one.log] is not one:
            return False
        if record:
            self.disks[one.log].append(record)
        return True

    def arrives(self) -> None:
        if there := [one for one in self.wire if not one.to.paused]:
            said = self.draw(there)
            self.wire.remove(said)
            if said.by is None:
                self.perform(said.to, said.what)
            else:
                self.between(said.to, said.what, said.by)

    def perform(self, one: Process, what: str) -> None:
        """An owner reads what the gateway says."""
        answer: AmqpError | None = LOST
        if what == "undo":
            one.lose_part()
            answer = None
        elif what.startswith("manager: "):
            self.managed(one, what.removeprefix("manager: "))
            return
        elif one.live:
            if what == "name":
                answer = one.decisions.name(ID, tuple(OTHERS))
            elif what == "prepare":
                one.live = False
                if not self.write(one, "prepared"):
                    return
                one.prepared, answer = True, None
            else:
                if not self.decide(one):
                    return
                answer = None
        if self.peers[one.log] is one:
            self.replies.append((one.log, answer))

    def decide(self, one: Process) -> bool:
        """It commits its own part, or prepares it. Whether that is durable."""
        found = one.decisions.get(ID)
        assert found is not None
        one.live = False
        if self.verdict:
            one.held = self.write(one, "held")
            return one.held
        found.step(Event.COMMIT)
        if not self.write(one, "decided"):
            return False
        found.step(Event.DURABLE)
        return True

    def between(self, one: Process, what: str, by: Process) -> None:
        """An owner hears another one, whose question or order this is."""
        if what == "outcome?":
            outcome = one.decisions.outcome(ID)
            if outcome is Outcome.ROLLED_BACK and not self.write(one):
                return  # only the log's owner may say that the transaction is unknown
            if by.prepared and outcome is not Outcome.OPEN and self.write(by, outcome.value):
                by.prepared = False
            return
        if one.prepared:
            if not self.write(one, what):
                return
            one.prepared = False
        elif not self.write(one):
            return  # likewise only the owner may say that it has no part
        self.told(by, one.log)

    def told(self, one: Process, log: str) -> None:
        found = one.decisions.get(ID)
        if found is not None and one.decisions.told(ID, log) is Step.COMPLETE:
            self.write(one, "completed")

    def connected(self, log: str) -> Process:
        """The log's owner, or one of before."""
        found: Process = self.draw([one for one in self.all if one.log == log])
        return found

    def tells(self) -> None:
        one = self.draw(self.all)
        for decision in () if one.paused else one.decisions.telling():
            log = self.draw(sorted(decision.left))
            what = "committed" if decision.commits else "rolled_back"
            self.wire.append(Said(self.connected(log), what, one))
            if not decision.commits:
                self.told(one, log)  # heard or not

    def asks(self) -> None:
        one = self.draw(self.all)
        if one.prepared and not one.paused:
            self.wire.append(Said(self.connected(DECIDER), "outcome?", one))

    # What goes wrong.

    def is_lost(self) -> None:
        if self.wire:
            self.wire.remove(self.draw(self.wire))

    def is_paused(self) -> None:
        self.draw(self.all).paused = True

    def goes_on(self) -> None:
        one = self.draw(self.all)
        one.paused = False

    def is_followed(self) -> None:
        """Another process owns a log; the former one dies, or doesn't know."""
        log = self.draw(LOGS)
        former = self.owners[log]
        if self.draw([True, False]):
            self.all.remove(former)
            self.wire = [one for one in self.wire if former not in (one.to, one.by)]
        self.owners[log] = Process(log, self.disks[log])
        self.all.append(self.owners[log])

    def the_gateway_loses_one(self) -> None:
        """The lost process may still read what it was sent, and then finds its peer gone."""
        one = self.peers[self.draw(LOGS)]
        self.replies = [reply for reply in self.replies if reply[0] != one.log]
        decides = self.end.state is shared_end.State.DECIDING
        self.answer(one.log, DOUBT if decides else LOST)
        sent = [said for said in self.wire if said.to is one and said.by is None]
        self.wire = [said for said in self.wire if said not in sent]
        if not decides:  # nothing but its answer would come: what it asks later is refused
            self.peers[one.log] = Process(one.log, [])
        for said in sent if self.draw([True, False]) else ():
            self.perform(one, said.what)
        one.lose_part()

    def the_gateway_is_lost(self) -> None:
        self.asked.clear()
        self.replies.clear()
        for log in LOGS:
            self.the_peer_is_gone(log)

    def the_peer_is_gone(self, log: str) -> None:
        one = self.peers[log]
        for said in [said for said in self.wire if said.to is one and said.by is None]:
            self.wire.remove(said)
        one.lose_part()

    # What holds.

    def check(self) -> None:
        records = [one for one in self.disks[DECIDER] if one != "held"]
        held, decided = "held" in self.disks[DECIDER], "decided" in records
        assert records in ([], ["decided"], ["decided", "completed"], ["rolled_back"])
        assert held == bool(self.verdict) or not records
        for log in OTHERS:
            records = self.disks[log]
            assert records in ENDS, records
            assert decided or "committed" not in records, (log, records)
            assert not (decided and "rolled_back" in records), (log, records)
        assert decided or held or self.heard != "committed"
        assert not (decided or held) or self.heard != "rolled back"

    def recover(self) -> None:
        """All owners live, and hear each other: everything ends, and nothing is kept."""
        self.the_gateway_is_lost()
        self.wire.clear()
        self.all = list(self.owners.values())
        for one in self.all:
            one.paused = False
        if self.verdict:
            wanted = self.verdict if self.heard == "committed" else "rolled_back"
            self.managed(self.owners[DECIDER], wanted)
        for _ in range(2):
            for one in self.all:
                for decision in one.decisions.telling():
                    what = "committed" if decision.commits else "rolled_back"
                    for log in tuple(decision.left):
                        self.between(self.owners[log], what, one)
                if one.prepared:
                    self.between(self.owners[DECIDER], "outcome?", one)
        self.check()
        assert all(self.disks[log][-1:] != ["prepared"] for log in OTHERS), self.disks
        assert self.disks[DECIDER][-1:] not in (["decided"], ["held"])
        assert not any(one.decisions.telling() for one in self.all)
        if "decided" in self.disks[DECIDER]:
            assert all("committed" in self.disks[log] for log in OTHERS)
