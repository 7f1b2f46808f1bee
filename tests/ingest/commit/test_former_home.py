"""A home whose table the program wrote before it had delays, pauses and policies."""

import shutil
from pathlib import Path

import pytest
from gateway_peer import Peer
from gateway_process import Gateway
from proton import Message

from distributary.pipeline.tables.home.home import Home
from distributary.pipeline.tables.recovery.snapshot import load
from distributary.pipeline.tables.topic_log.topic_log import TopicLog
from distributary.pipeline.tables.verify.verify_home import verify

FIRST_FORMAT = Path(__file__).parents[2] / "formats" / "first_format" / "topic_log"


@pytest.fixture
def gateway(tmp_path: Path) -> Gateway:
    made = Gateway(tmp_path)
    shutil.copytree(FIRST_FORMAT, Home(made.home).topic_log)
    return made


def test_its_subscriptions_go_on(gateway: Gateway) -> None:
    """Subscriptions get what they were owed; new messages are kept beside it, and are there after a
    kill."""
    with gateway:
        with Peer(gateway.port, "worker") as peer:
            receiver = peer.shared_durable("orders", "dispatchers|global")
            receiver.drain(10)
            got, receiver.inbox = receiver.inbox, []
            receiver.confirm(got)
            # 1 has expired since, unless this clock is behind that of the home's writer.
            assert [one.data[-1:] for one in got if one.data[-1:] != b"b"] == [b"c"]
            peer.sender("orders").publish_data(
                [
                    Message(body=text, durable=True, priority=9).encode()
                    for text in ("late", "later")
                ]
            )
            receiver.confirm(receiver.take())
        gateway.kill()
        gateway.start()
        with Peer(gateway.port, "worker") as peer:
            receiver = peer.shared_durable("orders", "dispatchers|global")
            assert receiver.bodies() == ["later"]
            assert receiver.nothing()
    log = TopicLog.open(Home(gateway.home).topic_log, create=False)
    assert {one.key.id for one in load(log).subscriptions} >= {"global/dispatchers"}
    assert verify(Home(gateway.home), deep=True).sound
