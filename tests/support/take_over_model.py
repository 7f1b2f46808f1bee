"""Gateways that own one home without a disk, one after the other and at the same time, over a store
that answers late, twice or never. Each move is one that could happen next; any order of moves is a
history. The rules are those of `pipeline.object_journal`; store and table are as plain as can be.

The store promises that a put which must not replace anything is refused if the name is taken. It
doesn't promise that a request is carried out before its answer, or once, or that the answer comes.
An owner without an answer reads the name.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from distributary.pipeline.object_journal.entry import Kind
from distributary.pipeline.object_journal.put_window import Accept, Again, Lost, Put, PutWindow
from distributary.pipeline.object_journal.take_over import (
    Appoint,
    Claim,
    Look,
    Overtaken,
    Replay,
    Seal,
    Serve,
    Standing,
    TakeOver,
    last_standing,
)

#: What an owner puts: an entry of an epoch's journal, or a version of the table.
Name = tuple[str, int, int]
#: Requests that may still be carried out, of which the oldest are forgotten.
LATE_MAX: Final = 40
#: Owners of one history, and of them at the same time.
OWNERS: Final = 8
ALIVE_MAX: Final = 3
#: How much likelier anything else is than that one starts, or dies.
LIKELIER: Final = 3
#: Groups that an owner has under way at once.
WINDOW: Final = 3


@dataclass(frozen=True)
class Content:
    """The content of a name. `writer` and `text` tell contents apart; a version has the groups
    that it commits, or the epoch that it claims or appoints."""

    writer: int
    text: str
    groups: tuple[tuple[int, str], ...] = ()
    claims: int = 0
    appoints: int = 0

    @property
    def kind(self) -> Kind:
        return Kind.SEAL if self.text == "seal" else Kind.GROUP


@dataclass
class Request:
    """A put (`content`) or a removal, by an owner who may wait for its answer. It can be carried
    out at any time, and again; `made`: it was carried out, and made the object."""

    owner: "Owner"
    name: Name
    content: Content | None
    waits: bool = True
    made: bool = False


@dataclass
class Faults:
    """A rule that is broken on purpose: each must be found."""

    seals_are_removed: bool = False
    serves_unappointed: bool = False
    accepts_out_of_order: bool = False
    no_seal: bool = False
    reads_past_gaps: bool = False
    removes_before_commit: bool = False


class Model:
    """The store, the gateways, and what they accepted."""

    def __init__(self, faults: Faults | None = None) -> None:
        self.faults = faults or Faults()
        self.store: dict[Name, Content] = {}
        self.late: list[Request] = []
        self.owners: list[Owner] = []
        self.accepted: dict[int, str] = {}
        self.served = 0
        self.made = 0

    # What happens next.

    def moves(self) -> list[Callable[[], None]]:
        """All that could happen next; what is likelier in life is there more often."""
        alive = [owner for owner in self.owners if owner.alive]
        found = [move for owner in alive for move in owner.moves()]
        for request in self.late:
            times = 3 if request.waits and not request.made else 1
            found += [partial(self.carry_out, request)] * times
            if request.waits and request.owner.alive:
                found += [partial(self.answer, request)] * (8 if request.made else 1)
        found *= LIKELIER
        if self.made < OWNERS and len(alive) < ALIVE_MAX:
            found.append(self.start)
        return found + [owner.end for owner in alive]

    def start(self) -> None:
        self.made += 1
        self.owners.append(Owner(self, self.made))

    def ask(self, owner: "Owner", name: Name, content: Content | None) -> None:
        self.late.append(Request(owner, name, content, waits=content is not None))
        while len(self.late) > LATE_MAX:
            done = next((one for one in self.late if not one.waits), self.late[0])
            self.late.remove(done)
            if done.waits and done.owner.alive:
                done.owner.answered(done.name, self._read(done))

    def carry_out(self, request: Request) -> None:
        if request.content is None:
            self.store.pop(request.name, None)
        elif request.name not in self.store:
            self.store[request.name] = request.content
            request.made = True

    def answer(self, request: Request) -> None:
        """Its owner hears of it; the request may be carried out again all the same."""
        request.waits = False
        request.owner.answered(request.name, self._read(request))

    def _read(self, request: Request) -> Put:
        """The result of a put as its owner sees it: by the answer, or by reading the name."""
        there = self.store.get(request.name)
        if request.made or there == request.content:
            return Put.STANDS
        return Put.UNKNOWN if there is None else Put.TAKEN

    # What must hold.

    def accept(self, group: int, text: str) -> None:
        assert self.accepted.setdefault(group, text) == text, f"two groups {group} were accepted"

    def check(self) -> None:
        """All that was accepted is in the table, or a start would find it in the live journal."""
        standing, table = folded(self.store)
        for group, text in self.recovered(standing, table).items():
            wanted = self.accepted.get(group, text)
            assert wanted == text, f"group {group} is {text}, accepted was {wanted}"
        lost = self.accepted.keys() - self.recovered(standing, table).keys()
        assert not lost, f"accepted and lost: {sorted(lost)}"

    def recovered(self, standing: Standing, table: dict[int, str]) -> dict[int, str]:
        there = self.names(standing.live)
        last = last_standing(standing.group, {group: one.kind for group, one in there.items()})
        more = range(standing.group + 1, last + 1)
        return table | {group: there[group].text for group in more}

    def names(self, epoch: int) -> dict[int, Content]:
        """A journal's entries."""
        return {
            group: content
            for (what, of, group), content in self.store.items()
            if what == "entry" and of == epoch
        }


def folded(store: Mapping[Name, Content]) -> tuple[Standing, dict[int, str]]:
    """The standing that the table says, and its groups: each once, without a gap."""
    version = group = epoch = live = 0
    table: dict[int, str] = {}
    while (made := store.get(("version", 0, version + 1))) is not None:
        version += 1
        epoch, live = max(epoch, made.claims), made.appoints or live
        for number, text in made.groups:
            assert number == group + 1, f"version {version} has group {number} after {group}"
            group, table[number] = number, text
    return Standing(version, group, epoch, live), table


@dataclass
class Owner:
    """One process: it takes the home over, serves, commits, removes; it may be gone at any time.
    What it waits for is under way in the model's store."""

    model: Model
    writer: int
    alive: bool = True
    standing: Standing = field(init=False)
    taking: TakeOver = field(init=False)
    window: PutWindow = field(default_factory=lambda: PutWindow(WINDOW))
    waiting: dict[Name, Content] = field(default_factory=dict)
    taken: dict[int, str] = field(default_factory=dict)
    to_commit: dict[int, str] = field(default_factory=dict)
    texts: dict[int, str] = field(default_factory=dict)
    serves: int = 0
    next_group: int = 0

    def __post_init__(self) -> None:
        self.standing, _ = folded(self.model.store)
        self.taking = TakeOver(self.standing)

    def moves(self) -> Iterator[Callable[[], None]]:
        if self.waiting and not self.serves:
            return
        if not self.serves:
            yield from [self.go_on] * 8
            return
        if self.window.room and self.next_group < 40:
            yield from [self.publish] * 4
        if self.to_commit and not self._commits():
            yield from [self.commit] * 3

    def _commits(self) -> bool:
        return any(what == "version" for what, _, _ in self.waiting)

    def end(self) -> None:
        self.alive = False

    def _put(self, name: Name, content: Content) -> None:
        self.waiting[name] = content
        self.model.ask(self, name, content)

    def _version(self, content: Content) -> None:
        self._put(("version", 0, self.standing.version + 1), content)

    def answered(self, name: Name, put: Put) -> None:
        """The result of a put arrives."""
        content = self.waiting.get(name)
        if content is None or not self.alive:
            return
        if put is Put.UNKNOWN and not (name[0] == "entry" and self.serves):
            self.model.ask(self, name, content)
            return
        if name[0] == "version":
            del self.waiting[name]
            self._version_known(content, stands=put is Put.STANDS)
        elif self.serves:
            self._group_known(name, put)
        else:
            del self.waiting[name]
            there = Kind.SEAL if put is Put.STANDS else self.model.store[name].kind
            self.taking.stands(there)

    # Taking over.

    def go_on(self) -> None:
        match self.taking.step:
            case Claim(_, epoch):
                self._version(Content(self.writer, f"claim {epoch}", claims=epoch))
            case Look(epoch):
                self.taking.listed(self._listed(epoch))
            case Seal(epoch, group) if self.model.faults.no_seal:
                self.taking.stands(Kind.SEAL)
            case Seal(epoch, group):
                self._put(("entry", epoch, group), Content(self.writer, "seal"))
            case Replay(epoch, groups):
                there = self.model.names(epoch)
                some = tuple((group, there[group].text) for group in groups if group in there)
                self._version(Content(self.writer, f"replay {groups}", groups=some))
            case Appoint(epoch) if self.model.faults.serves_unappointed:
                self.taking.appointed()
            case Appoint(epoch):
                self._version(Content(self.writer, f"appoint {epoch}", appoints=epoch))
            case Serve(epoch, first_group):
                self.serves, self.next_group = epoch, first_group
                self.model.served += 1
                self._clean(first_group)
            case Overtaken():
                self.end()

    def _listed(self, epoch: int) -> dict[int, Kind]:
        kinds = {group: one.kind for group, one in self.model.names(epoch).items()}
        if self.model.faults.reads_past_gaps and kinds:
            return dict.fromkeys(range(self.standing.group + 1, max(kinds) + 1), Kind.GROUP)
        return kinds

    def _version_known(self, content: Content, *, stands: bool) -> None:
        before = self.standing
        if stands:
            self.standing, _ = folded(
                {
                    name: one
                    for name, one in self.model.store.items()
                    if name[0] == "version" and name[2] <= before.version + 1
                }
            )
        if self.serves:
            self._committed(content, stands=stands)
        elif not stands:
            self.standing, _ = folded(self.model.store)
            self.taking.overtaken(self.standing)
        elif content.claims:
            self.taking.claimed()
        elif content.appoints:
            self.taking.appointed()
        else:
            self.taking.replayed()

    def _clean(self, first_group: int) -> None:
        """The former journals are emptied, but for their seals."""
        for what, epoch, group in list(self.model.store):
            if what != "entry" or epoch >= self.serves:
                continue
            seal = self.model.store[what, epoch, group].kind is Kind.SEAL
            if not seal or self.model.faults.seals_are_removed:
                self.model.ask(self, (what, epoch, group), None)

    # Serving.

    def publish(self) -> None:
        group, self.next_group = self.next_group, self.next_group + 1
        self.window.begin(group)
        self.texts[group] = f"{group} of {self.writer}"
        self._put(("entry", self.serves, group), Content(self.writer, self.texts[group]))

    def _group_known(self, name: Name, put: Put) -> None:
        group = name[2]
        if self.model.faults.accepts_out_of_order and put is Put.STANDS:
            self.model.accept(group, self.texts[group])
        for effect in self.window.answered(group, put):
            match effect:
                case Accept(number):
                    self.waiting.pop(("entry", self.serves, number), None)
                    self.model.accept(number, self.texts[number])
                    self.to_commit[number] = self.texts[number]
                case Again():
                    self.model.ask(self, name, self.waiting[name])
                case Lost():
                    self.end()

    def commit(self) -> None:
        if self.model.faults.removes_before_commit:
            self._remove(tuple(self.to_commit))
        groups = tuple(sorted(self.to_commit.items()))
        self._version(Content(self.writer, f"commit {groups}", groups=groups))

    def _committed(self, content: Content, *, stands: bool) -> None:
        if not stands:
            self.end()
            return
        for group, _ in content.groups:
            del self.to_commit[group]
        self._remove(tuple(group for group, _ in content.groups))

    def _remove(self, groups: tuple[int, ...]) -> None:
        for group in groups:
            self.model.ask(self, ("entry", self.serves, group), None)
