"""The service queue: the consumers of one subscription, their credit, and the order of their turns.

Rule 1: a consumer is queued, once, while it has credit and may be served.
Rule 2: consumers of a higher priority are served first while they have credit. Within one priority
        they take turns strictly, one message each, however much credit they have.
Rule 3: the single active consumer is the one of the highest priority, of several the first to
        attach. It stays active until it detaches.
"""

from collections import deque

from distributary.pipeline.sequences.sequence_set import Run


class ServiceQueue:
    """Consumers in the order of their turns, by numbers that the caller gives them."""

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
        self.credit: dict[int, int] = {}  #: consumer -> messages it takes; never negative
        self._priority: dict[int, int] = {}  #: consumer -> its priority, in order of attaching
        self._selector: dict[int, str] = {}  #: consumer -> its selector, if it has one
        self.selectors: frozenset[str] = frozenset()  #: selectors of all consumers
        #: priority, the highest first -> queued consumers, the next one first.
        self._queues: dict[int, deque[int]] = {}
        self.queued = 0  #: number of queued consumers
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
        """Set the number of further messages that the consumer takes."""
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
        """Whether this consumer is served if it has credit."""
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
        """Sum of the credit of all queued consumers."""
        credit = self.credit
        return sum([credit[consumer] for queue in self._queues.values() for consumer in queue])

    def order(self) -> list[int]:
        """Return the queued consumers, in the order in which they will be served."""
        return [consumer for queue in self._queues.values() for consumer in queue]

    def waiting_selectors(self) -> frozenset[str | None]:
        """Return the selectors of the queued consumers; None stands for a consumer without one."""
        if not self._selector:
            return frozenset((None,))
        return frozenset([self._selector.get(consumer) for consumer in self.order()])

    def deal(self, run: Run) -> list[tuple[int, Run]]:
        """Deal the run out to queued consumers, one message each in turn, as far as credit goes.
        Selectors aren't asked.

        Each share is a consumer and its messages.
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
        """Return the next consumer for a message that these selectors match; None if no queued
        consumer may get it."""
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
        """Deal one message to each consumer in turn, until the run or a consumer's credit ends.
        Returns the number of messages dealt.

        A turn has all consumers, or as many as there are messages. A turn of all consumers is
        repeated until the lowest credit among them ends. The last consumer served is last in line.
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
