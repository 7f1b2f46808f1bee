"""Runs every tests/scenarios/*.txt: a command, four dashes, the effects expected.

If a scenario fails, run it again with REWRITE=1 and read the diff. Commit it only if you understand
why it changed and want it so.

A run is written `3`, `3-7` (both ends in it) or `3-11/4` (every fourth). A command may begin with
its time in seconds, `@12`; time stands still until it is said again. Commands:

    start POSITION [dead-letters] [settled RUN ...] [failed SEQUENCE=COUNT ...]
                   [possibly-delivered SEQUENCE] [policy NAME=VALUE ...]
                                       a new dispatcher, as after a restart; what is owed below
                                       that sequence was possibly delivered
    policy NAME=VALUE ...              this policy from now on
    publish RUN [priority=N] [expires=SECONDS] [due=SECONDS] [group=NAME] [matches=SELECTOR]
                                       messages like these become durable
    attach NAME [priority=N] [selector=SELECTOR] | detach NAME | credit NAME NUMBER
    offer RUN | skip POSITION
    serve                              offer all that was published, until nothing is wanted
    settle NAME RUN OUTCOME [failed] [undeliverable] [delivered=SECONDS]
    reacquire NAME RUN                 those that aren't in flight go to this consumer
    give-up RUN REASON | dead-lettered RUN
    wake                               at the latest time that it asked for, up to now
    pause | resume | rewind POSITION
    state
"""

import os
from array import array
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

import pytest
from msgspec import structs

from distributary.pipeline.dispatch.dispatcher import (
    FOREVER,
    NOBODY,
    DeadLetter,
    Deliver,
    Dispatcher,
    Settled,
)
from distributary.pipeline.dispatch.priority_index import PriorityIndex
from distributary.pipeline.model.header_attributes import HeaderAttributes
from distributary.pipeline.model.outcome import Outcome, Reason
from distributary.pipeline.model.policy import DEFAULT
from distributary.pipeline.redelivery.attempts import Attempts
from distributary.pipeline.sequences.sequence_set import SequenceSet

SCENARIOS = sorted((Path(__file__).parents[2] / "scenarios").glob("*.txt"))


def parse_run(text):
    ends, _, step = text.partition("/")
    start, _, last = ends.partition("-")
    return range(int(start), int(last or start) + 1, int(step or 1))


def show_run(run):
    if not isinstance(run, range):
        return ",".join(map(str, run))
    if len(run) == 1:
        return f"{run[0]}"
    return f"{run[0]}-{run[-1]}" + (f"/{run.step}" if run.step > 1 else "")


def options(words):
    """Words with an equals sign in them, as a table."""
    return dict(word.split("=") for word in words if "=" in word)


def seconds(text):
    return int(float(text) * 1_000_000)


def policy_of(words):
    """The policy in which these fields have these values, and all others their default."""
    said = {
        name: type(getattr(DEFAULT, name))(float(value)) for name, value in options(words).items()
    }
    return structs.replace(DEFAULT, **said)


@dataclass
class Kind:
    """The attributes of a published message."""

    priority: int = 4
    expires: int = 0
    due: int = 0
    group: int = 0
    matches: str = ""


class Story:
    """One transcript: a dispatcher, and the names of its consumers."""

    def __init__(self):
        self.priority_index, self.kinds, self.head, self.now = PriorityIndex(), {}, FOREVER, 0
        self.dispatcher, self.names = Dispatcher(0, priority_index=self.priority_index), [""]

    def number(self, name):
        if name not in self.names:
            self.names.append(name)
        return self.names.index(name)

    def restarted(self, position, words):
        said = {"settled": [], "failed": [], "possibly-delivered": [], "policy": []}
        for word in words:
            if word in said:
                values = said[word]
            elif word != "dead-letters":
                values.append(word)
        return Dispatcher(
            position,
            SequenceSet(map(parse_run, said["settled"])),
            attempts=Attempts(
                {int(one): int(count) for one, count in options(said["failed"]).items()},
                max(map(int, said["possibly-delivered"]), default=0),
            ),
            policy=policy_of(said["policy"]),
            priority_index=self.priority_index,
            dead_letters="dead-letters" in words,
        )

    def do(self, line):
        """The effects of a command, which may begin with its time."""
        first, _, rest = line.partition(" ")
        if first.startswith("@"):
            self.now, line = seconds(first[1:]), rest
        effects = self.perform(line.split()) or ()
        return [one if isinstance(one, str) else self.show(one) for one in effects]

    def perform(self, words):
        dispatcher, now = self.dispatcher, self.now
        match words:
            case ["start", position, *words]:
                self.dispatcher = self.restarted(int(position), words)
            case ["publish", run, *words]:
                self.publish(parse_run(run), options(words))
            case ["attach", name, *words]:
                said = options(words)
                priority, selector = int(said.get("priority", 0)), said.get("selector")
                dispatcher.attach(self.number(name), priority=priority, selector=selector)
            case ["detach", name]:
                return dispatcher.detach(self.number(name))
            case ["credit", name, credit]:
                dispatcher.credit(self.number(name), int(credit))
            case ["offer", run]:
                return self.offer(parse_run(run))
            case ["serve"]:
                return self.serve()
            case ["settle", name, run, outcome, *flags]:
                return dispatcher.settle(
                    self.number(name),
                    parse_run(run),
                    Outcome(outcome),
                    failed="failed" in flags,
                    undeliverable="undeliverable" in flags,
                    now=now,
                    delivered_at=seconds(options(flags).get("delivered", "0")),
                )
            case _:
                return self.manage(words)
        return None

    def manage(self, words):
        dispatcher = self.dispatcher
        match words:
            case ["give-up", run, reason]:
                return dispatcher.give_up(parse_run(run), Reason(reason))
            case ["reacquire", name, run]:
                return dispatcher.reacquire(self.number(name), parse_run(run), self.now)
            case ["dead-lettered", run]:
                return dispatcher.dead_lettered(parse_run(run))
            case ["wake"]:
                return dispatcher.wake(self.now)
            case ["pause" | "resume" as what]:
                dispatcher.paused = what == "pause"
            case ["policy", *words]:
                dispatcher.policy = policy_of(words)
            case ["skip", position]:
                dispatcher.skip_to(int(position))
            case ["rewind", position]:
                dispatcher.rewind(int(position))
            case ["state"]:
                return [self.state()]
            case _:
                raise ValueError(words)
        return None

    def publish(self, run, said):
        kind = Kind(
            priority=int(said.get("priority", 4)),
            expires=seconds(said.get("expires", "0")),
            due=seconds(said.get("due", "0")),
            group=crc32(said["group"].encode()) if "group" in said else 0,
            matches=said.get("matches", ""),
        )
        self.kinds |= dict.fromkeys(run, kind)
        self.head = run.stop
        self.priority_index.add(run.start, run.stop, self.attributes(run))

    def attributes(self, run):
        kinds = [self.kinds.get(one, Kind()) for one in run]
        return HeaderAttributes(
            run.start,
            None,
            bytes(kind.priority for kind in kinds),
            array("q", [kind.expires for kind in kinds]).tobytes(),
            array("q", [kind.due for kind in kinds]).tobytes(),
            array("Q", [kind.group for kind in kinds]).tobytes(),
        )

    def offer(self, run):
        plain = all(self.kinds.get(one, Kind()) == Kind() for one in run)
        matches = {
            selector: array("q", [o for o in run if self.kinds[o].matches == selector])
            for selector in self.dispatcher.selectors
        }
        attributes = None if plain else self.attributes(run)
        return self.dispatcher.offer(
            run.start, run.stop, now=self.now, attributes=attributes, matches=matches
        )

    def serve(self):
        effects = []
        while self.dispatcher.wanted(self.head) is not None:
            effects += self.offer(range(min(self.kinds), self.head))
        return effects

    def state(self):
        it = self.dispatcher
        due = "" if it.next_due is None else f" due={it.next_due / 1_000_000:g}"
        return (
            f"position={it.position} floor={it.floor} wanted={it.wanted(self.head)}"
            f" outstanding={it.outstanding} in_flight={it.in_flight} consumers={it.consumers}{due}"
        )

    def show(self, effect):
        count = f" failures={effect.delivery_count}" if effect.delivery_count else ""
        name = f" {self.names[effect.consumer]}" if effect.consumer != NOBODY else ""
        what = f"{name} {show_run(effect.run)}"
        match effect:
            case Deliver():
                return f"deliver{what}{count}"
            case Settled(outcome=outcome, final=final):
                return f"settled{what} {outcome} {'final' if final else 'back'}{count}"
            case DeadLetter(reason=reason):
                return f"dead-letter{what} {reason}{count}"


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_scenario(path):
    """The story goes as it is written."""
    story = Story()
    actual, expected = [], path.read_text().rstrip().split("\n\n")
    for block in expected:
        head, bar, _ = block.partition("\n----")
        effects = story.do(head.splitlines()[-1]) if bar else []
        actual.append("\n".join([head + bar, *effects]))
    if os.environ.get("REWRITE"):
        path.write_text("\n\n".join(actual) + "\n")
    assert actual == expected


def test_there_are_scenarios():
    """The folder is where this file thinks it is."""
    assert len(SCENARIOS) >= 8
