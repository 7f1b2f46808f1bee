"""A query's list is remembered for its next parts."""

from distributary.pipeline.management.listings import LISTINGS_MAX, SECONDS, Listings
from distributary.pipeline.management.management_messages import Entity


def test_a_list_is_remembered_for_a_while() -> None:
    """For the user that began it, by entity; later it is made anew."""
    now = [0.0]
    listings = Listings(lambda: now[0])
    listings.keep("ann", Entity.QUEUE, [("a", "t", None)])
    assert listings.of("ann", Entity.QUEUE) == [("a", "t", None)]
    assert listings.of("bob", Entity.QUEUE) is None
    assert listings.of("ann", Entity.TOPIC) is None
    now[0] = SECONDS + 1
    assert listings.of("ann", Entity.QUEUE) is None


def test_the_newest_lists_are_remembered() -> None:
    listings = Listings(lambda: 0.0)
    for nth in range(LISTINGS_MAX + 1):
        listings.keep(f"user-{nth}", Entity.QUEUE, [])
    assert listings.of("user-0", Entity.QUEUE) is None
    assert listings.of("user-1", Entity.QUEUE) == []
