"""Progress of each log after a moment, read from the history as it grows."""

from collections.abc import Iterable, Mapping

from history import Event, History, Publish, Published, Settle, Settled


class Progress:
    """Begins now. A log goes on when a message that was sent from now on is accepted, and an
    outcome that was given from now on is confirmed: of persistent messages, as an owner that can
    write nothing accepts others all the same. `log_of` says where an address is; one that isn't in
    it, as it is in several, says nothing."""

    def __init__(self, history: History, log_of: Mapping[str, str]) -> None:
        self._events, self._log_of = history.events, log_of
        self._read = len(self._events)
        self._sent: dict[str, str] = {}
        self._volatile = {
            event.message for event in self._events if isinstance(event, Publish) and not event.kept
        }
        self._settled: set[tuple[str, str, str]] = set()
        self._accepted: set[str] = set()
        self._confirmed: set[str] = set()

    def of_all(self, logs: Iterable[str]) -> bool:
        """Whether all of these go on."""
        for event in self._events[self._read :]:
            self._take(event)
        self._read = len(self._events)
        return set(logs) <= self._accepted & self._confirmed

    def _take(self, event: Event) -> None:
        match event:
            case Publish() if not event.kept:
                self._volatile.add(event.message)
            case Publish():
                self._sent[event.message] = self._log_of.get(event.topic, "")
            case Published() if event.message in self._sent:
                self._accepted.add(self._sent[event.message])
            case Settle() if event.message not in self._volatile:
                self._settled.add((event.subscription, event.message, event.consumer))
            case Settled():
                place = event.subscription, event.message, event.consumer
                if place in self._settled:
                    address = event.message.rpartition("/")[0].rpartition("/")[0]
                    self._confirmed.add(self._log_of.get(address, ""))
            case _:
                pass
