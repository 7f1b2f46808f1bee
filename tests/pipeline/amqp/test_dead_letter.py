"""The copies of messages that were given up: what they say, and what they leave as it was."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.pipeline.amqp.dead_letter import (
    DeadLetterInfo,
    MisfitInfo,
    Origin,
    copy,
    copy_of_misfit,
    misfit_topic,
    origin,
    queue_of,
    restored,
)
from distributary.pipeline.codec.amqp_types import Map, Symbol, Timestamp
from distributary.pipeline.codec.amqp_writer import Typed, write
from distributary.pipeline.codec.sections import Header, decode
from distributary.pipeline.model.address import NAME_CHARACTERS_MAX
from distributary.pipeline.model.outcome import Reason

INFO = DeadLetterInfo("queue/orders", "queue://orders", Reason.EXHAUSTED, 10, 1_700_000_000_123_456)
SAID = {
    "x-opt-dead-letter-subscription": "queue/orders",
    "x-opt-dead-letter-topic": "queue://orders",
    "x-opt-dead-letter-sequence": 41,
    "x-opt-dead-letter-reason": "exhausted",
    "x-opt-dead-letter-attempts": 10,
    "x-opt-dead-letter-at": 1_700_000_000_123,
}


def header(*fields):
    return b"\x00\x53\x70" + write(list(fields))


def annotations(pairs):
    return b"\x00\x53\x72" + write(Map(tuple((Symbol(k), v) for k, v in pairs.items())))


def properties(identifier):
    return b"\x00\x53\x73" + write([identifier])


def body(size=3):
    return b"\x00\x53\x75\xb0" + size.to_bytes(4, "big") + b"x" * size


BARE = properties("id-1") + body()


def said(data):
    return {str(key): value for key, value in decode(data).message_annotations.pairs}


def test_a_copy_says_where_from_why_how_often_and_when():
    """A plain message gets the six annotations in front and stays as it was behind them."""
    made = copy(BARE, 41, INFO)
    assert said(made.data) == SAID
    assert made.data.endswith(BARE)
    assert (made.durable, made.priority) == (False, 4)


def test_the_types_of_the_annotations_are_those_that_are_promised():
    """Strings, an unsigned long, an unsigned int and a timestamp, whatever their values."""
    data = copy(BARE, 41, INFO).data
    assert b"x-opt-dead-letter-sequence" + b"\x80" + (41).to_bytes(8, "big") in data
    assert b"x-opt-dead-letter-attempts" + b"\x70" + (10).to_bytes(4, "big") in data
    assert isinstance(said(data)["x-opt-dead-letter-at"], Timestamp)


def test_the_header_keeps_what_the_message_is_and_loses_how_long_it_lives():
    """Durable and priority stay; time to live, delivery count and first acquirer go."""
    whole = header(True, Typed("ubyte", 7), Typed("uint", 1_000), True, Typed("uint", 3))
    made = copy(whole + BARE, 1, INFO)
    assert decode(made.data).header == Header(durable=True, priority=7)
    assert (made.durable, made.priority) == (True, 7)


def test_other_annotations_stay_and_delivery_annotations_go():
    """Others' message annotations are in the copy; delivery annotations, for one hop, aren't."""
    hop = b"\x00\x53\x71" + write(Map(((Symbol("x-hop"), 1),)))
    mine = annotations({"x-opt-jms-dest": 0, "mine": "y"})
    made = copy(header(True) + hop + mine + BARE, 41, INFO)
    assert said(made.data) == {"x-opt-jms-dest": 0, "mine": "y", **SAID}
    assert decode(made.data).delivery_annotations == Map()
    assert made.data.endswith(BARE)


def test_a_dead_letter_that_dies_again_says_so_once():
    """The annotations of the second copy take the place of those of the first."""
    first = copy(BARE, 7, DeadLetterInfo("global/a", "t", Reason.REJECTED, 1, 1))
    assert said(copy(first.data, 41, INFO).data) == SAID


def test_a_map_that_is_large_stays_readable():
    """Beyond 255 bytes or 255 elements the annotations' map has its wide form."""
    many = {f"key-{n}": "v" * 20 for n in range(200)}
    made = copy(annotations(many) + BARE, 41, INFO)
    assert said(made.data) == {**many, **SAID}


@pytest.mark.parametrize(
    "broken",
    [
        b"\x00\x53\x72\xc0\x01\x00",  # a list
        b"\x00\x53\x72\xc1\x03\x03\x40\x40",  # three elements, of which there are two
        b"\x00\x53\x72\xa1\x01x",
    ],
)
def test_annotations_that_are_no_map_are_left_out(broken):
    """A copy is made all the same, and it can be read."""
    assert said(copy(broken + BARE, 41, INFO).data) == SAID


@given(st.binary(max_size=60))
def test_whatever_the_bytes_are_there_is_a_copy(data):
    """No message is lost because it is broken."""
    made = copy(data, 41, INFO)
    assert made.data


def test_the_way_back_leaves_the_message_as_it_was_published():
    """But for what would make it expire at once."""
    whole = header(True, Typed("ubyte", 7)) + annotations({"mine": "y"}) + BARE
    assert restored(copy(whole, 41, INFO).data).data == whole
    assert restored(copy(BARE, 41, INFO).data).data == BARE


def test_a_dead_letter_knows_where_it_comes_from():
    """And a message that is none doesn't, nor one that is broken."""
    assert origin(copy(BARE, 41, INFO).data) == Origin("queue/orders", "queue://orders", 41)
    assert origin(BARE) is None
    assert origin(annotations({"x-opt-dead-letter-topic": 3}) + BARE) is None
    assert origin(b"\x00\x53\x72\xc1\x03\x03\x40\x40" + BARE) is None
    assert origin(b"junk") is None


def test_the_queue_of_dead_letters_has_a_name_that_an_address_may_have():
    """It says the subscription; one whose id is too long is cut, and no two are cut to the same."""
    assert queue_of("container/billing/orders") == "DLQ.container/billing/orders"
    long = [queue_of("container/" + "x" * 300 + end) for end in "ab"]
    assert all(len(name) == NAME_CHARACTERS_MAX for name in long)
    assert long[0] != long[1]


def test_a_misfit_says_where_it_was_published_and_why_it_is_none_of_its_messages():
    """It has neither a sequence nor a subscription, so no subscription gave it up; restored, it
    has the bytes that its publisher sent."""
    mine = annotations({"x-opt-jms-dest": 0})
    made = copy_of_misfit(
        mine + BARE, MisfitInfo("orders", "'orders': /id: no", 1_700_000_000_123_456)
    )
    assert said(made.data) == {
        "x-opt-jms-dest": 0,
        "x-opt-dead-letter-topic": "orders",
        "x-opt-dead-letter-reason": "misfit",
        "x-opt-dead-letter-description": "'orders': /id: no",
        "x-opt-dead-letter-at": 1_700_000_000_123,
    }
    assert origin(made.data) is None
    assert misfit_topic(made.data) == "orders"
    assert restored(made.data).data == mine + BARE
    assert misfit_topic(BARE) is None
    assert misfit_topic(copy(BARE, 41, INFO).data) is None
