"""Whose turn it is: the consumers of one subscription, what they take, and in what order.

Rule 1: a consumer stands in line, once, as long as it has credit and may have messages.
Rule 2: those of a higher priority get all while they have credit; within one priority it is a
        strict turn, whatever credit they have.
Rule 3: a single active consumer is the one of the highest priority, the first to come of several;
        it stays so until it goes.
"""

from collections import deque

from distributary.pipeline.sequences.sequence_set import Run


class ServiceQueue:
    """Consumers by their turn. Numbers are given by the caller."""

    __slots__ = (
        "_active",
        "_lines",
        "_priority",
        "_selector",
        "_single",
        "credit",
        "ready",
        "selectors",
    )

    def __init__(self) -> None:
        self.credit: dict[int, int] = {}  #: consumer -> how many more it takes; never negative
        self._priority: dict[int, int] = {}  #: consumer -> its priority, in the order of coming
        self._selector: dict[int, str] = {}  #: of consumers that have one
        self.selectors: frozenset[str] = frozenset()  #: those of all consumers
        #: priority -> those in line, the next one first; the highest priority first.
        self._lines: dict[int, deque[int]] = {}
        self.ready = 0  #: how many are in line
        self._single = False
        self._active: int | None = None  #: the single active consumer; None if all are active

    def attach(self, consumer: int, priority: int, selector: str | None) -> None:
        """A consumer came; it has no credit."""
        self.credit[consumer] = 0
        self._priority[consumer] = priority
        if selector is not None:
            self._selector[consumer] = selector
            self.selectors = frozenset(self._selector.values())
        if priority not in self._lines:
            self._lines[priority] = deque()
            self._lines = {one: self._lines[one] for one in sorted(self._lines, reverse=True)}
        self._elect()

    def detach(self, consumer: int) -> None:
        """A consumer went."""
        self.set_credit(consumer, 0)
        del self.credit[consumer]
        priority = self._priority.pop(consumer)
        if self._selector.pop(consumer, None) is not None:
            self.selectors = frozenset(self._selector.values())
        if priority not in self._priority.values():
            del self._lines[priority]
        self._elect()

    def set_credit(self, consumer: int, credit: int) -> None:
        """From now on the consumer takes this many."""
        had = self.credit[consumer]
        self.credit[consumer] = credit
        if (had > 0) == (credit > 0) or not self.active(consumer):
            return
        line = self._lines[self._priority[consumer]]
        if credit:
            line.append(consumer)
            self.ready += 1
        else:
            line.remove(consumer)
            self.ready -= 1

    def active(self, consumer: int) -> bool:
        """Whether this consumer gets messages when it has credit."""
        return self._active == consumer if self._single else consumer in self.credit

    @property
    def single(self) -> bool:
        """Whether only one consumer gets messages."""
        return self._single

    @single.setter
    def single(self, single: bool) -> None:
        if single != self._single:
            self._single = single
            self._active = None
            self._elect()
            self._line_up()

    @property
    def room(self) -> int:
        """How many messages all in line take together."""
        credit = self.credit
        return sum([credit[consumer] for line in self._lines.values() for consumer in line])

    def turns(self) -> list[int]:
        """Those in line, in the order in which they will be served."""
        return [consumer for line in self._lines.values() for consumer in line]

    def takers(self) -> frozenset[str | None]:
        """The selectors of those in line; None stands for having none."""
        if not self._selector:
            return frozenset((None,))
        return frozenset([self._selector.get(consumer) for consumer in self.turns()])

    def deal(self, run: Run) -> list[tuple[int, Run]]:
        """Deal the run out, one each in turn, as far as credit goes, whatever selectors there are.

        Each share is a consumer and what it gets.
        """
        shares: list[tuple[int, Run]] = []
        taken = 0
        credit = self.credit
        for line in self._lines.values():
            while line and taken < len(run):
                rest = run[taken:] if taken else run
                if len(line) > 1 and len(rest) > 1:
                    taken += self._round(line, rest, shares)
                    continue
                consumer = line[0]
                part = rest[: credit[consumer]]
                shares.append((consumer, part))
                credit[consumer] -= len(part)
                taken += len(part)
                if not credit[consumer]:
                    line.popleft()
                    self.ready -= 1
                elif len(line) > 1:
                    line.rotate(-1)
        return shares

    def next(self, matching: frozenset[str]) -> int | None:
        """Whose turn it is for a message that these selectors match; None if nobody in line may
        have it."""
        if not self._selector:
            return next((line[0] for line in self._lines.values() if line), None)
        for line in self._lines.values():
            for consumer in line:
                if self.may(consumer, matching):
                    return consumer
        return None

    def may(self, consumer: int, matching: frozenset[str]) -> bool:
        """Whether the consumer may have a message that these selectors match."""
        selector = self._selector.get(consumer)
        return selector is None or selector in matching

    def waits(self, consumer: int) -> bool:
        """Whether the consumer is in line."""
        return self.credit.get(consumer, 0) > 0 and self.active(consumer)

    def take(self, consumer: int) -> None:
        """One in line gets one message, and goes to the end."""
        line = self._lines[self._priority[consumer]]
        self.credit[consumer] -= 1
        line.remove(consumer)
        if self.credit[consumer]:
            line.append(consumer)
        else:
            self.ready -= 1

    def _round(self, line: deque[int], run: Run, shares: list[tuple[int, Run]]) -> int:
        """Deal until the run ends or a consumer's credit does.

        A turn goes over as many consumers as there are messages, or over all of them; then it is
        gone over again as often as the lowest credit allows. The last one served ends up last in
        the line.
        """
        credit = self.credit
        turn = [line.popleft() for _ in range(min(len(line), len(run)))]
        width = len(turn)
        taken = width if line else min(len(run), width * min([credit[c] for c in turn]))
        for nth, consumer in enumerate(turn):
            share = run[nth:taken:width]
            credit[consumer] -= len(share)
            shares.append((consumer, share))
        next_up = taken % width
        left = [c for c in turn[next_up:] + turn[:next_up] if credit[c]]
        line.extend(left)
        self.ready -= width - len(left)
        return taken

    def _elect(self) -> None:
        """There is an active consumer if only one may be."""
        if not self._single or self._active in self._priority:
            return
        self._active = max(self._priority, key=self._priority.__getitem__, default=None)
        self._line_up()

    def _line_up(self) -> None:
        """Everybody stands where it may, those that came first in front."""
        for line in self._lines.values():
            line.clear()
        for consumer, priority in self._priority.items():
            if self.waits(consumer):
                self._lines[priority].append(consumer)
        self.ready = sum([len(line) for line in self._lines.values()])
