"""Runs every tests/scenarios/*.txt: a command, four dashes, the effects expected.

If a scenario fails, run it again with REWRITE=1 and read the diff. Commit it only if you understand
why it changed and want it so.

A run is written `3`, `3-7` (both ends in it) or `3-11/4` (every fourth). Commands:

    start POSITION [settled RUN ...] [failed SEQUENCE=COUNT ...] [doubtful SEQUENCE]
                                       a new dispatcher, as after a restart; doubtful below that
    attach NAME | detach NAME | credit NAME NUMBER
    offer RUN | skip POSITION
    settle NAME RUN OUTCOME [failed] [undeliverable]
    state
"""

import os
from pathlib import Path

import pytest

from pipeline.dispatch import Deliver, Dispatcher, Settled
from pipeline.outcome import Outcome
from pipeline.sequences import SequenceSet

SCENARIOS = sorted((Path(__file__).parents[1] / "scenarios").glob("*.txt"))


def parse_run(text):
    ends, _, step = text.partition("/")
    start, _, last = ends.partition("-")
    return range(int(start), int(last or start) + 1, int(step or 1))


def show_run(run):
    if len(run) == 1:
        return f"{run[0]}"
    return f"{run[0]}-{run[-1]}" + (f"/{run.step}" if run.step > 1 else "")


class Story:
    """One transcript: a dispatcher, and the names of its consumers."""

    def __init__(self):
        self.dispatcher, self.names = Dispatcher(0), []

    def number(self, name):
        if name not in self.names:
            self.names.append(name)
        return self.names.index(name)

    @staticmethod
    def restarted(position, words):
        said = {"settled": [], "failed": [], "doubtful": []}
        for word in words:
            if word in said:
                values = said[word]
            else:
                values.append(word)
        pairs = [pair.split("=") for pair in said["failed"]]
        return Dispatcher(
            position,
            SequenceSet(map(parse_run, said["settled"])),
            failures={int(sequence): int(count) for sequence, count in pairs},
            doubtful_below=max(map(int, said["doubtful"]), default=0),
        )

    def do(self, line):
        dispatcher = self.dispatcher
        match line.split():
            case ["start", position, *words]:
                self.dispatcher = self.restarted(int(position), words)
            case ["attach", name]:
                dispatcher.attach(self.number(name))
            case ["detach", name]:
                return [self.show(effect) for effect in dispatcher.detach(self.number(name))]
            case ["credit", name, credit]:
                dispatcher.credit(self.number(name), int(credit))
            case ["offer", run]:
                offered = parse_run(run)
                return [self.show(e) for e in dispatcher.offer(offered.start, offered.stop)]
            case ["skip", position]:
                dispatcher.skip_to(int(position))
            case ["settle", name, run, outcome, *flags]:
                return [
                    self.show(effect)
                    for effect in dispatcher.settle(
                        self.number(name),
                        parse_run(run),
                        Outcome(outcome),
                        failed="failed" in flags,
                        undeliverable="undeliverable" in flags,
                    )
                ]
            case ["state"]:
                return [self.state()]
            case _:
                raise ValueError(line)
        return []

    def state(self):
        it = self.dispatcher
        return (
            f"position={it.position} floor={it.floor} wanted={it.wanted()}"
            f" outstanding={it.outstanding} in_flight={it.in_flight} consumers={it.consumers}"
        )

    def show(self, effect):
        count = f" failures={effect.delivery_count}" if effect.delivery_count else ""
        match effect:
            case Deliver(consumer, run):
                return f"deliver {self.names[consumer]} {show_run(run)}{count}"
            case Settled(consumer, run, outcome, final):
                what = "final" if final else "back"
                return f"settled {self.names[consumer]} {show_run(run)} {outcome} {what}{count}"


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
