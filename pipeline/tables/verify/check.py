"""The result of one check: that something holds, or sentences about its problems."""

from dataclasses import dataclass, field
from enum import StrEnum

from distributary.pipeline.tables.arrow.arrow_types import Int64s
from distributary.pipeline.tables.arrow.range_arrays import Stretches

#: Sentences of one check that are kept; the others are counted. A broken disk breaks many files.
PROBLEMS_MAX = 10
#: Stretches of sequences that one sentence names.
STRETCHES_MAX = 5


class Verdict(StrEnum):
    SOUND = "sound"
    UNSOUND = "not sound"
    UNKNOWN = "not checked"


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the report. `counted` tells what was read; `problems` are sentences that say what
    is wrong, where, and what to do; `notes` are worth knowing but break no promise."""

    name: str
    verdict: Verdict
    counted: str
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(slots=True)
class Findings:
    """Collects the sentences of one check."""

    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    more: int = 0

    def problem(self, sentence: str) -> None:
        if len(self.problems) < PROBLEMS_MAX:
            self.problems.append(sentence)
        else:
            self.more += 1

    def note(self, sentence: str) -> None:
        self.notes.append(sentence)

    def check(self, name: str, counted: str) -> Check:
        problems = self.problems + ([f"and {self.more} more like these"] if self.more else [])
        verdict = Verdict.UNSOUND if problems else Verdict.SOUND
        return Check(name, verdict, counted, tuple(problems), tuple(self.notes))


def unknown(name: str, why: str) -> Check:
    """Return a check that could not be made, with the reason."""
    return Check(name, Verdict.UNKNOWN, why)


def sequences(ascending: Int64s) -> str:
    """Format sequences for a person: `5 to 9, 12`."""
    stretches = Stretches.of(ascending)
    pairs = zip(
        stretches.starts[:STRETCHES_MAX].tolist(),
        stretches.stops[:STRETCHES_MAX].tolist(),
        strict=True,
    )
    words = [str(start) if stop == start + 1 else f"{start} to {stop - 1}" for start, stop in pairs]
    rest = len(stretches.starts) - len(words)
    return ", ".join(words) + (f" and {rest} more stretches" if rest else "")


def counted(**numbers: int) -> str:
    """Format numbers with their nouns: `3 files, 1,200 rows`."""
    return ", ".join(
        f"{number:,} {_noun(word.replace('_', ' '), number)}" for word, number in numbers.items()
    )


def _noun(plural: str, number: int) -> str:
    if number != 1:
        return plural
    return plural.removesuffix("ies") + "y" if plural.endswith("ies") else plural.removesuffix("s")
