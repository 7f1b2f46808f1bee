"""Why a user may not ask for what a request says: of a subscription, and of a policy."""

from ingest.consumer import Subscription
from ingest.named import Named
from ingest.operations import Order
from ingest.security.access import Access
from pipeline.address import Destination, Kind
from pipeline.management import Verb
from pipeline.operations import Operation
from pipeline.policy import DEFAULT
from pipeline.policy_table import dead_letter_queue, of_text, over
from pipeline.refusal import NOT_FOUND, Refusal
from pipeline.registry import key_of_queue
from pipeline.subscription import Definition, SubscriptionKey
from pipeline.subscriptions.rights import LinkOperation


def forbidden(
    access: Access,
    user: str,
    verb: Verb,
    key: SubscriptionKey,
    wanted: Definition | None,
    existing: Subscription | None,
) -> Refusal | None:
    """Why this can't be asked of the subscription of this key. `wanted` is the definition of one
    that is to be made. Of one that the user may not see is said what is said of none."""
    absent = Refusal(NOT_FOUND, f"there is no subscription {key.id}")
    if wanted is not None:
        return access.refusal(user, verb, wanted.topic, key)
    if key.queue:
        kind = Kind.QUEUE if key.durable else Kind.TEMPORARY_QUEUE
        queue = Destination(kind, key.name).topic
        return access.refusal(user, verb, queue, key) or (None if existing else absent)
    if existing is None or not access.rights.sees(user, key, existing.definition.topic):
        return absent
    return access.refusal(user, verb, existing.definition.topic, key)


def forbidden_policy(access: Access, user: str, named: Named, order: Order) -> Refusal | None:
    """Why this user can't have a policy said by this order. Who names a queue of dead letters has
    messages sent there, so he must be allowed to send there himself."""
    if order.operation not in (Operation.CREATE, Operation.UPDATE) or not order.policy:
        return None
    existing, key = named.get(order.key), order.key
    definition = order.definition or (existing.definition if existing else None)
    if definition is None:
        return None  # there is none, which is said elsewhere
    refusal = access.refusal(user, LinkOperation.SET_POLICY, definition.topic, key)
    address = _dead_letters(order.policy, key)
    queue = dead_letter_queue(address)
    if refusal is not None or queue is None or address == _dead_letters(named.own_policy(key), key):
        return refusal
    refusal = access.refusal(user, LinkOperation.SET_DEAD_LETTERS, queue.topic)
    if refusal is None and key_of_queue(queue) not in named:
        refusal = access.refusal(user, LinkOperation.MAKE_QUEUE, queue.topic)
    return refusal


def _dead_letters(policy: str, key: SubscriptionKey) -> str:
    """The address of dead letters that a policy's text says. The text was checked before."""
    return over(DEFAULT, of_text(policy, key.id), key.id).dead_letter_address
