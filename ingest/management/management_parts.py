"""What the parts of the node `$management` stand on."""

from collections.abc import Callable

import msgspec

from distributary.ingest.publish.message_parts import MessageParts
from distributary.ingest.runtime.host import Host
from distributary.ingest.runtime.turns import TaskTurns
from distributary.ingest.schemas.validator import Validator
from distributary.ingest.security.access import Access
from distributary.ingest.subscriptions.subscription_directory import SubscriptionDirectory


class ManagementParts(msgspec.Struct, frozen=True):
    """Given to each of them when it is made. `turns` has the turns of all requests; `finish_pass`
    is called when something was said to peers or to the log outside of a pass over what came."""

    host: Host
    messages: MessageParts
    access: Access
    directory: SubscriptionDirectory
    schemas: Validator
    turns: TaskTurns
    finish_pass: Callable[[], None]
