"""Consequences of a misfit by the message's way: the literal table."""

import pytest

from distributary.pipeline.schemas.schema_version import (
    CONSEQUENCES,
    Consequence,
    Validation,
    Way,
)


def test_every_way_into_a_topic_has_a_row_for_each_schema_that_validates() -> None:
    wanted = {(way, one) for way in Way for one in Validation if one is not Validation.OFF}
    assert set(CONSEQUENCES) == wanted


@pytest.mark.parametrize("way", list(Way))
def test_only_who_publishes_to_the_topic_itself_is_refused(way: Way) -> None:
    refused = CONSEQUENCES[way, Validation.REFUSE] is Consequence.REJECT
    assert refused == (way is Way.PUBLISHED)
    assert CONSEQUENCES[way, Validation.DEAD_LETTER] is not Consequence.REJECT
