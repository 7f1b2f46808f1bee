"""The service queue: the consumers of one subscription, their credit, and the order of their turns.

Rule 1: a consumer is queued, once, while it has credit and may be served.
Rule 2: consumers of a higher priority are served first while they have credit. Within one priority
        turns are strict, whatever the credit.
Rule 3: a single active consumer is the one of the highest priority, the first to attach of several;
        it stays active until it detaches.
"""

from collections import deque

from distributary.pipeline.sequences.sequence_set import Run


class ServiceQueue:
    """Consumers in the order of their turns. Their numbers are given by the caller."""

    __slots__ = (
        "_active",
        "_priority",
        "_queues",
        "_selector",
        "_single",
        "credit",
        "queued",
        "selectors",
    )

    def __init__(self) -> None:
        self.credit: dict[int, int] = {}  #: consumer -> how many more it takes; never negative
        self._priority: dict[int, int] = {}  #: consumer -> its priority, as they attached
        self._selector: dict[int, str] = {}  #: of consumers that have one
        self.selectors: frozenset[str] = frozenset()  #: those of all consumers
        #: priority -> queued consumers, the next one first; the highest priority first.
        self._queues: dict[int, deque[int]] = {}
        self.queued = 0  #: how many consumers are queued
        self._single = False
        self._active: int | None = None  #: the single active consumer; None if all are active

    def attach(self, consumer: int, priority: int, selector: str | None) -> None:
        """Attach a consumer, without credit."""
        self.credit[consumer] = 0
        self._priority[consumer] = priority
        if selector is not None:
            self._selector[consumer] = selector
            self.selectors = frozenset(self._selector.values())
        if priority not in self._queues:
            self._queues[priority] = deque()
            self._queues = {one: self._queues[one] for one in sorted(self._queues, reverse=True)}
        self._elect()

    def detach(self, consumer: int) -> None:
        """Detach a consumer."""
        self.set_credit(consumer, 0)
        del self.credit[consumer]
        priority = self._priority.pop(consumer)
        if self._selector.pop(consumer, None) is not None:
            self.selectors = frozenset(self._selector.values())
        if priority not in self._priority.values():
            del self._queues[priority]
        self._elect()

    def set_credit(self, consumer: int, credit: int) -> None:
        """Set how many more messages the consumer takes."""
        had = self.credit[consumer]
        self.credit[consumer] = credit
        if (had > 0) == (credit > 0) or not self.active(consumer):
            return
        queue = self._queues[self._priority[consumer]]
        if credit:
            queue.append(consumer)
            self.queued += 1
        else:
            queue.remove(consumer)
            self.queued -= 1

    def active(self, consumer: int) -> bool:
        """Whether this consumer is served when it has credit."""
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
            self._requeue_all()

    @property
    def room(self) -> int:
        """The sum of the credit of all queued consumers."""
        credit = self.credit
        return sum([credit[consumer] for queue in self._queues.values() for consumer in queue])

    def order(self) -> list[int]:
        """The queued consumers, in the order in which they will be served."""
        return [consumer for queue in self._queues.values() for consumer in queue]

    def waiting_selectors(self) -> frozenset[str | None]:
        """The selectors of the queued consumers; None stands for having none."""
        if not self._selector:
            return frozenset((None,))
        return frozenset([self._selector.get(consumer) for consumer in self.order()])

    def deal(self, run: Run) -> list[tuple[int, Run]]:
        """Deal the run out, one each in turn, as far as credit goes, whatever selectors there are.

        Each share is a consumer and what it gets.
        """
        shares: list[tuple[int, Run]] = []
        left = count = len(run)
        credit = self.credit
        for queue in self._queues.values():
            while queue and left:
                rest = run if left == count else run[count - left :]
                if left > 1 and len(queue) > 1:
                    left -= self._round(queue, rest, shares)
                    continue
                consumer = queue[0]
                takes = credit[consumer]
                if takes < left:
                    rest = rest[:takes]
                else:
                    takes = left
                shares.append((consumer, rest))
                credit[consumer] -= takes
                left -= takes
                if not credit[consumer]:
                    queue.popleft()
                    self.queued -= 1
                elif len(queue) > 1:
                    queue.rotate(-1)
        return shares

    def next(self, matching: frozenset[str]) -> int | None:
        """The next consumer for a message that these selectors match; None if no queued consumer
        may get it."""
        if not self._selector:
            return next((queue[0] for queue in self._queues.values() if queue), None)
        for queue in self._queues.values():
            for consumer in queue:
                if self.may(consumer, matching):
                    return consumer
        return None

    def may(self, consumer: int, matching: frozenset[str]) -> bool:
        """Whether the consumer may have a message that these selectors match."""
        selector = self._selector.get(consumer)
        return selector is None or selector in matching

    def waits(self, consumer: int) -> bool:
        """Whether the consumer is queued."""
        return self.credit.get(consumer, 0) > 0 and self.active(consumer)

    def take(self, consumer: int) -> None:
        """Give one message to a queued consumer, which goes to the end of its queue."""
        queue = self._queues[self._priority[consumer]]
        self.credit[consumer] -= 1
        queue.remove(consumer)
        if self.credit[consumer]:
            queue.append(consumer)
        else:
            self.queued -= 1

    def _round(self, queue: deque[int], run: Run, shares: list[tuple[int, Run]]) -> int:
        """Deal until the run ends or a consumer's credit does.

        A turn goes over as many consumers as there are messages, or over all of them; then it is
        gone over again as often as the lowest credit allows. The last one served ends up last in
        the line.
        """
        credit = self.credit
        turn = [queue.popleft() for _ in range(min(len(queue), len(run)))]
        width = len(turn)
        taken = width if queue else min(len(run), width * min([credit[c] for c in turn]))
        for nth, consumer in enumerate(turn):
            share = run[nth:taken:width]
            credit[consumer] -= len(share)
            shares.append((consumer, share))
        next_up = taken % width
        left = [c for c in turn[next_up:] + turn[:next_up] if credit[c]]
        queue.extend(left)
        self.queued -= width - len(left)
        return taken

    def _elect(self) -> None:
        """Choose an active consumer if only one may be active and there is none."""
        if not self._single or self._active in self._priority:
            return
        self._active = max(self._priority, key=self._priority.__getitem__, default=None)
        self._requeue_all()

    def _requeue_all(self) -> None:
        """Queue all consumers anew, in the order in which they attached."""
        for queue in self._queues.values():
            queue.clear()
        for consumer, priority in self._priority.items():
            if self.waits(consumer):
                self._queues[priority].append(consumer)
        self.queued = sum([len(queue) for queue in self._queues.values()])
