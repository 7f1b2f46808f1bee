"""How much of its older messages a subscription has in memory: as its policy says, or its topic's,
or as the settings say."""

import asyncio
from pathlib import Path

import pytest
from gateway_process import PATIENCE
from table_groups import bodies, framed, group, run

from distributary.ingest.delivery.consumer import Subscription
from distributary.ingest.delivery.message_source import Paging
from distributary.ingest.runtime.host import Halt, Host
from distributary.ingest.runtime.load_settings import load
from distributary.ingest.runtime.policies import Policies, policies_written
from distributary.pipeline.dispatch.dispatcher import Dispatcher
from distributary.pipeline.log.message_counts import MessageCounts, Stalls
from distributary.pipeline.log.recent_messages import RecentMessages
from distributary.pipeline.model.subscription import Definition, SubscriptionKey
from distributary.pipeline.tables.topic_log.topic_log import TopicLog

MESSAGES, BYTES = 400, 1_000
POLICIES = """
[[topic]]
match = "t"
page_bytes = 20_000
[[subscription]]
match = "global/small"
page_bytes = 5_000
"""


@pytest.mark.parametrize(
    ("name", "topic", "page_bytes"), [("small", "t", 5_000), ("s", "t", 20_000), ("s", "u", 50_000)]
)
def test_a_page_is_as_big_as_the_policy_says(
    tmp_path: Path, name: str, topic: str, page_bytes: int
) -> None:
    """The subscription's own before its topic's, that before the settings'."""
    (tmp_path / "policies.toml").write_text(POLICIES)
    file, loop = str(tmp_path / "policies.toml"), asyncio.new_event_loop()
    (tmp_path / "gateway.toml").write_text(
        f'[delivery]\npolicies = "{file}"\npage_bytes = 50_000\n'
    )
    settings = load(tmp_path / "gateway.toml", {})
    policies = Policies(loop, policies_written(settings), settings.delivery.pattern_style)
    policy = policies.of_subscription(SubscriptionKey(None, name, True), topic)
    log = TopicLog.open(tmp_path / "log")
    log.commit([framed(group(1, 0, run(topic, bodies(MESSAGES, BYTES))))])
    counts, dispatcher = MessageCounts(1, Stalls()), Dispatcher(0, policy=policy)
    definition = Definition(topic, shared=True)
    subscription = Subscription(None, definition, dispatcher, counts.unnamed)
    subscription.consumers[1] = None  # type: ignore[assignment] (a consumer is served)
    came = asyncio.Event()
    recent = RecentMessages(head=MESSAGES, bytes_max=1)
    host = Host(loop, settings, Halt(loop), counts)
    paging = Paging(host, recent, log, lambda _page: came.set())
    assert paging.find(subscription, 0) is None
    loop.run_until_complete(asyncio.wait_for(came.wait(), PATIENCE))
    pages = subscription.ahead
    assert sum(batch.count for batch in pages.batches) == page_bytes // BYTES == pages.covered.stop
    paging.close()
    loop.close()
