"""The node put together from the parts of a gateway."""

import asyncio
from collections.abc import Callable

import msgspec

from ingest.delivery import DeliveryService
from ingest.hints import Hints
from ingest.link import Link
from ingest.log import Log
from ingest.management.entities import Entities
from ingest.management.node import Node
from ingest.management.peers import Peers
from ingest.management.redrive import Redrive
from ingest.management.replies import Replies
from ingest.management.requests import Requests
from ingest.named import Named
from ingest.operations import Operations
from ingest.security.access import Access
from ingest.settings import Settings
from ingest.tallies import Tallies
from pipeline.refusal import Refusal
from pipeline.tables.topic_log import TopicLog


def open_node(
    loop: asyncio.AbstractEventLoop,
    settings: Settings,
    log: Log,
    table: TopicLog,
    access: Access,
    named: Named,
    delivery: DeliveryService,
    peers: Peers,
    tallies: Tallies,
    resolve: Callable[[Link, str], str | Refusal],
    turned: Callable[[], None],
) -> Node:
    """The node `$management` of a gateway. `resolve` says where a link's user may send to by an
    address; `turned` is called when something was said outside of a pass over what came."""
    limits = settings.management
    most = min(limits.request_bytes_max, settings.amqp.message_bytes_max)
    limits = msgspec.structs.replace(limits, request_bytes_max=most)
    operations = Operations(loop, log, table, named, delivery, peers, tallies)
    entities = Entities(log, table, named, peers, tallies.waiting)
    redrive = Redrive(log, named, delivery)
    most = settings.delivery.hint_matches_max
    hints = Hints(named, delivery.paging, lambda: table.sequence_version, most)
    requests = Requests(settings, access, named, entities, operations, redrive, hints)
    replies = Replies(log, limits, resolve)
    return Node(loop, limits, settings.amqp.decode, requests, replies, operations, turned)
