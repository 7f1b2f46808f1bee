"""Publishes flights, as a process of its own: `python -m examples.demo.publisher PORT COUNT`."""

import sys

from distributary.ingest.native.pump import ACCEPTED, Outcomes
from examples.demo.demo_client import Client, ClientError
from examples.demo.demo_messages import Member, Reporter, speak
from examples.demo.flights import TOPIC, runs

#: Messages that are encoded and sent in one go; a part of the credit that a producer gets.
RUN = 250


def publish(port: int, count: int, reporter: Reporter) -> None:
    """Publish `count` flights and return when the gateway has accepted each."""
    client = Client("127.0.0.1", port, "publisher")
    link = client.produce(TOPIC)
    accepted = 0
    for run in runs(count, RUN):
        arrived = client.step(0.0)
        accepted += _accepted(arrived.outcomes)
        while link.credit < run.count:
            accepted += _accepted(client.step(0.05).outcomes)
            reporter.tell(Member(done=accepted))
        client.send(link, run)
        reporter.tell(Member(done=accepted))
    while accepted < count:
        accepted += _accepted(client.step(0.05).outcomes)
        reporter.tell(Member(done=accepted))
    client.leave(link)
    client.close()
    reporter.tell(Member(done=accepted), now=True)


def _accepted(outcomes: tuple[Outcomes, ...]) -> int:
    for one in outcomes:
        if one.state != ACCEPTED:
            raise ClientError(
                f"publisher: the gateway did not accept flight-{one.run[0]} (state {one.state})"
            )
    return sum(len(one.run) for one in outcomes)


def main() -> int:
    port, count = (int(text) for text in sys.argv[1:])
    return speak(lambda reporter: publish(port, count, reporter))


if __name__ == "__main__":
    sys.exit(main())
