"""The base of all parts of the node `$management`."""

from collections.abc import Callable

import msgspec

from distributary.ingest.publish.message_parts import MessageParts
from distributary.ingest.runtime.host import Host
from distributary.ingest.runtime.turns import TaskTurns
from distributary.ingest.schemas.validator import Validator
from distributary.ingest.security.access import Access
from distributary.ingest.subscriptions.subscription_directory import SubscriptionDirectory


class ManagementParts(msgspec.Struct, frozen=True):
    """The base that each part of the node gets when it is made. `turns` has the turns of all
    requests; call `finish_pass` after output to peers or to the log outside of a peer's pass."""

    host: Host
    messages: MessageParts
    access: Access
    directory: SubscriptionDirectory
    schemas: Validator
    turns: TaskTurns
    finish_pass: Callable[[], None]
