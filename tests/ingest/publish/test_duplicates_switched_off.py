"""A policies file that looks for duplicates no more, while the gateway runs."""

from collections.abc import Callable
from pathlib import Path

import pytest
from gateway_fields import make
from gateway_jms import Jms, source, text_message
from gateway_links import Outgoing, encoded
from gateway_peer import Connect
from gateway_process import Gateway
from gateway_transactions import condition_of, transacted

Make = Callable[..., Gateway]
ON = '[[topic]]\nmatch = "t"\nduplicates_messages = 3\n'


@pytest.fixture
def ruled(own_gateway: Make, tmp_path: Path) -> tuple[Gateway, Callable[[str], None]]:
    """A gateway that looks for duplicates, and a function that changes its policies."""
    file = tmp_path / "policies.toml"
    file.write_text(ON)
    gateway = own_gateway({"delivery": {"policies": str(file)}}).start()

    def change(written: str) -> None:
        before = len(gateway.events("policies.reloaded"))
        file.write_text(written)
        gateway.await_event("policies.reloaded", before + 1)

    return gateway, change


def say(link: Outgoing, *names: str) -> None:
    """Publish messages of these ids; all of them are accepted."""
    link.publish_data([encoded(name, id=name) for name in names])


def test_the_ids_of_before_count_no_more(
    ruled: tuple[Gateway, Callable[[str], None]], connect: Connect
) -> None:
    """When duplicates are looked for again, an id that isn't among the last ones is none of them,
    although nothing that came meanwhile was looked at."""
    gateway, change = ruled
    peer = connect(port=gateway.port)
    receiver, sender = peer.receiver("t"), peer.sender("t")
    say(sender, "a", "a")
    change("")
    say(sender, "b", "b", "c", "d")
    change(ON)
    say(sender, "a", "a")
    assert receiver.bodies(6) == ["a", "b", "b", "c", "d", "a"]
    assert receiver.nothing()


def test_a_transaction_that_is_under_way_is_not_looked_at(
    ruled: tuple[Gateway, Callable[[str], None]],
) -> None:
    """Its messages came while duplicates were looked for, and its commit comes afterwards."""
    gateway, change = ruled
    with Jms(gateway.port) as jms, Jms(gateway.port, "c") as other:
        other.subscribed("N", source("t", durable=True))
        session = transacted(jms)
        to, state = session.producer("t"), make("transactional-state", txn_id=session.id)
        for body in ("one", "two"):  # their ids are the same
            answer = session.answer(session.transfer(to, text_message(body), state=state))
            assert condition_of(answer) == ""
        change("")
        assert session.commit() == ""
        other.credit(2)
        assert other.bodies(2) == ["one", "two"]
