"""The parts of a gateway through which messages go."""

import msgspec

from distributary.ingest.commit.group_log import Log
from distributary.ingest.commit.home_opening import Store
from distributary.ingest.delivery.delivery_service import DeliveryService
from distributary.ingest.delivery.dispatch_marking import DispatchMarking
from distributary.ingest.delivery.topic_directory import TopicDirectory
from distributary.ingest.publish.backlog_limits import Backlogs
from distributary.ingest.publish.intake import Intake
from distributary.ingest.publish.no_local import NoLocal
from distributary.pipeline.log.message_counts import MessageCounts


class MessageParts(msgspec.Struct, frozen=True):
    """The parts that the message loop makes (`ingest.gateway.message_loop`), and gives to the parts
    for subscriptions, transactions and management."""

    counts: MessageCounts
    store: Store
    no_local: NoLocal
    log: Log
    marking: DispatchMarking
    topics: TopicDirectory
    delivery: DeliveryService
    backlogs: Backlogs
    intake: Intake
