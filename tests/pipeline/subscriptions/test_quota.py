"""How many queues and durable subscriptions clients may make."""

import pytest

from distributary.pipeline.model.amqp_error import LIMIT_EXCEEDED
from distributary.pipeline.model.subscription import Made, Origin, SubscriptionKey
from distributary.pipeline.subscriptions.quota import Census, Quota

QUOTA = Quota(
    queues_max=5, queues_of_user_max=2, subscriptions_max=4, subscriptions_of_client_id_max=2
)
ALICE, OPERATOR, GATEWAY = Made(user="alice"), Made(Origin.OPERATOR, "ops"), Made(Origin.GATEWAY)


def queue(name: str) -> SubscriptionKey:
    return SubscriptionKey(None, name, durable=True, queue=True)


def durable(name: str, container: str | None = None) -> SubscriptionKey:
    return SubscriptionKey(container, name, durable=True)


def says(census: Census, key: SubscriptionKey, user: str) -> str:
    """The setting that a refusal names; nothing if there is none."""
    amqp_error = census.amqp_error(key, user)
    if amqp_error is None:
        return ""
    assert amqp_error.condition == LIMIT_EXCEEDED
    return amqp_error.description.partition("(")[2].partition(")")[0]


def test_queues_are_limited_for_each_user_and_in_all() -> None:
    census = Census(QUOTA)
    for nth in range(2):
        assert says(census, queue("new"), "alice") == ""
        census.add(queue(f"a{nth}"), ALICE)
    assert says(census, queue("new"), "alice") == "amqp.queues_of_user_max"
    assert says(census, queue("new"), "bob") == ""
    census.remove(queue("a0"), ALICE)
    assert says(census, queue("new"), "alice") == ""


def test_dead_letters_count_in_all_and_what_operators_make_does_not() -> None:
    """So no client has the gateway make an unlimited number of queues; operators have no limit."""
    census = Census(QUOTA)
    for nth in range(10):
        census.add(queue(f"o{nth}"), OPERATOR)
        census.add(durable(f"o{nth}", "c"), OPERATOR)
    assert says(census, queue("new"), "alice") == says(census, durable("new", "c"), "alice") == ""
    for nth in range(5):
        census.add(queue(f"dead{nth}"), GATEWAY)
    assert says(census, queue("new"), "alice") == "amqp.queues_max"


def test_subscriptions_are_limited_for_each_client_id_and_in_all() -> None:
    """A global one counts in all alone, one that isn't durable not at all."""
    census = Census(QUOTA)
    for name in "ab":
        census.add(durable(name, "c"), ALICE)
    assert says(census, durable("new", "c"), "alice") == "amqp.subscriptions_of_client_id_max"
    assert says(census, durable("new", "d"), "alice") == ""
    for name in "ab":
        census.add(durable(name), ALICE)
    assert says(census, durable("new"), "bob") == "amqp.subscriptions_max"
    volatile = SubscriptionKey("c", "v", durable=False)
    census.add(volatile, ALICE)
    assert says(census, volatile, "alice") == ""
    census.remove(durable("a", "c"), ALICE)
    assert says(census, durable("new", "c"), "alice") == ""


@pytest.mark.parametrize("quota", [Quota(5, 6, 4, 2), Quota(5, 5, 4, 5), Quota(5, -1, 4, 2)])
def test_a_part_is_not_more_than_the_whole(quota: Quota) -> None:
    assert all(holds for holds, _ in QUOTA.rules())
    assert [holds for holds, _ in quota.rules()].count(False) == 1
