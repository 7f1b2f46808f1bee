"""The node put together from the parts of a gateway."""

import asyncio
from collections.abc import Callable

import msgspec

from distributary.ingest.commit.group_log import Log
from distributary.ingest.delivery.delivery_service import DeliveryService
from distributary.ingest.management.entities import Entities
from distributary.ingest.management.node import Node
from distributary.ingest.management.peers import Peers
from distributary.ingest.management.redrive import Redrive
from distributary.ingest.management.replies import Replies
from distributary.ingest.management.requests import Requests
from distributary.ingest.net.link import Link
from distributary.ingest.publish.backlog_counters import BacklogCounters
from distributary.ingest.runtime.settings import Settings
from distributary.ingest.runtime.turns import TaskTurns
from distributary.ingest.security.access import Access
from distributary.ingest.subscriptions.hints import Hints
from distributary.ingest.subscriptions.operations import Operations
from distributary.ingest.subscriptions.subscription_directory import SubscriptionDirectory
from distributary.pipeline.model.amqp_error import AmqpError
from distributary.pipeline.tables.topic_log.topic_log import TopicLog


def open_node(
    loop: asyncio.AbstractEventLoop,
    settings: Settings,
    log: Log,
    table: TopicLog,
    access: Access,
    named: SubscriptionDirectory,
    delivery: DeliveryService,
    peers: Peers,
    counters: BacklogCounters,
    resolve: Callable[[Link, str], str | AmqpError],
    turned: Callable[[], None],
    parts: TaskTurns,
) -> Node:
    """The node `$management` of a gateway. `resolve` says where a link's user may send to by an
    address; `turned` is called when something was said outside of a pass over what came;
    `parts` has the turns of all requests."""
    limits = settings.management
    most = min(limits.request_bytes_max, settings.amqp.message_bytes_max)
    limits = msgspec.structs.replace(limits, request_bytes_max=most)
    operations = Operations(loop, log, table, named, delivery, peers, counters)
    entities = Entities(log, table, named, peers, counters.waiting)
    redrive = Redrive(log, named, delivery)
    most = settings.delivery.hint_matches_max
    hints = Hints(named, delivery.paging, lambda: table.sequence_version, most)
    requests = Requests(settings, access, named, entities, operations, redrive, hints, parts)
    replies = Replies(log, limits, resolve)
    return Node(loop, limits, settings.amqp.decode, requests, replies, operations, turned, parts)
