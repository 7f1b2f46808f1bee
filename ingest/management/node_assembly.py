"""Assembly of the node from the parts of a gateway."""

from collections.abc import Callable

import msgspec

from distributary.ingest.management.entities import Entities
from distributary.ingest.management.lease_requests import LeaseRequests
from distributary.ingest.management.management_parts import ManagementParts
from distributary.ingest.management.node import Node
from distributary.ingest.management.peers import Peers
from distributary.ingest.management.replies import Replies
from distributary.ingest.management.requests import Requests
from distributary.ingest.net.link import Link
from distributary.ingest.net.relayed_link import Relays
from distributary.ingest.subscriptions.operations import Operations
from distributary.ingest.transactions.coordinator import Coordinator
from distributary.ingest.transactions.transaction_requests import TransactionRequests
from distributary.pipeline.log_names import MAIN
from distributary.pipeline.model.amqp_error import AmqpError


def open_node(
    parts: ManagementParts,
    peers: Peers,
    resolve: Callable[[Link, str, Callable[[str], bool]], str | AmqpError],
    relays: Relays,
    transactions: Coordinator,
) -> Node:
    """Make the node `$management` of a gateway. `resolve` returns the destination of an address to
    which a link's user may send; `relays` ask other logs; `transactions` are those declared or
    prepared in ours."""
    settings, messages = parts.host.settings, parts.messages
    limits = settings.management
    most = min(limits.request_bytes_max, settings.amqp.message_bytes_max)
    limits = msgspec.structs.replace(limits, request_bytes_max=most)
    loop, directory = parts.host.loop, parts.directory
    operations = Operations(loop, messages, directory, peers, relays.logs_of)
    own, _ = relays.logs
    log, schemas = own or MAIN, parts.schemas.directory
    entities = Entities(messages, parts.directory, schemas, peers, log)
    prepared = TransactionRequests(
        transactions, parts.access, parts.turns, limits.query_count_max, log
    )
    requests = Requests(parts, entities, operations, prepared)
    replies = Replies(messages.log, limits, resolve, relays)
    return Node(parts, limits, requests, replies, LeaseRequests(parts), relays)
