"""Every row of the table of operations, and every way in which a place in the log is wrong."""

import pytest

from distributary.pipeline.model.amqp_error import LOCKED, NOT_FOUND, PRECONDITION_FAILED, AmqpError
from distributary.pipeline.model.subscription import SubscriptionKey
from distributary.pipeline.subscriptions.subscription_operations import (
    OPERATIONS,
    Deed,
    Operation,
    Standing,
    decide,
    new_floor,
    standing,
)

KEY = SubscriptionKey(None, "billing", durable=True)
ABSENT, EMPTY, WITH_MESSAGES, USED = Standing
GONE, EXISTS, BUSY, FULL = NOT_FOUND, PRECONDITION_FAILED, LOCKED, PRECONDITION_FAILED

ROWS = [
    # operation, what it does where nothing is, to an empty one, a queue with messages, a used one
    (Operation.CREATE, Deed.CREATE, EXISTS, EXISTS, EXISTS),
    (Operation.UPDATE, GONE, Deed.CONFIGURE, Deed.CONFIGURE, Deed.CONFIGURE),
    (Operation.PAUSE, GONE, Deed.PAUSE, Deed.PAUSE, Deed.PAUSE),
    (Operation.RESUME, GONE, Deed.NOTHING, Deed.NOTHING, Deed.NOTHING),
    (Operation.PURGE, GONE, Deed.MOVE, Deed.MOVE, Deed.MOVE),
    (Operation.REWIND, GONE, Deed.MOVE, Deed.MOVE, Deed.MOVE),
    (Operation.SKIP, GONE, Deed.MOVE, Deed.MOVE, Deed.MOVE),
    (Operation.REDRIVE, GONE, Deed.REDRIVE, Deed.REDRIVE, Deed.REDRIVE),
    (Operation.CLOSE, GONE, Deed.NOTHING, Deed.NOTHING, Deed.END_LINKS),
    (Operation.DELETE, GONE, Deed.DELETE, FULL, BUSY),
    (Operation.DELETE_ANYWAY, GONE, Deed.DELETE, Deed.DELETE, Deed.END_AND_DELETE),
]


@pytest.mark.parametrize("row", ROWS, ids=[row[0].value for row in ROWS])
def test_each_operation_does_what_its_row_says(row: tuple[object, ...]) -> None:
    operation, *wanted = row
    for stands, expected in zip(Standing, wanted, strict=True):
        found = decide(Operation(operation), stands, KEY, paused=False)
        if isinstance(found, AmqpError):
            assert found.condition == expected, stands
            assert KEY.id in found.description
        else:
            assert found is expected, stands


def test_the_rows_are_all_that_there_are() -> None:
    assert {row[0] for row in ROWS} == set(Operation)
    assert set(OPERATIONS) == {(one, stands) for one in Operation for stands in Standing}


def test_what_is_so_already_is_done_no_second_time() -> None:
    """A pause of a paused one is nothing, and so is a resume of one that goes."""
    assert decide(Operation.PAUSE, USED, KEY, paused=True) is Deed.NOTHING
    assert decide(Operation.RESUME, USED, KEY, paused=True) is Deed.RESUME
    assert decide(Operation.PURGE, USED, KEY, paused=True) is Deed.MOVE


@pytest.mark.parametrize(
    ("present", "users", "queue", "owed", "expected"),
    [
        (False, 0, False, False, ABSENT),
        (True, 0, False, False, EMPTY),
        (True, 0, False, True, EMPTY),  # a subscription's backlog goes with it, as JMS has it
        (True, 0, True, False, EMPTY),
        (True, 0, True, True, WITH_MESSAGES),
        (True, 2, True, True, USED),
        (True, 1, False, False, USED),
    ],
)
def test_how_it_stands(
    present: bool, users: int, queue: bool, owed: bool, expected: Standing
) -> None:
    assert standing(present=present, users=users, queue=queue, owed=owed) is expected


@pytest.mark.parametrize(
    ("operation", "to", "says"),
    [
        (Operation.REWIND, 101, "beyond the end: the next message gets sequence 100"),
        (Operation.REWIND, 9, "beyond retention: the earliest that is kept is 10"),
        (Operation.SKIP, 39, "lies before 40"),
        (Operation.REWIND, 10, ""),
        (Operation.REWIND, 100, ""),
        (Operation.SKIP, 40, ""),
        (Operation.SKIP, 100, ""),
        (Operation.PURGE, 100, ""),
    ],
)
def test_a_place_that_can_not_be_had_is_refused_with_what_there_is(
    operation: Operation, to: int, says: str
) -> None:
    found = new_floor(operation, to, floor=40, first=10, head=100)
    if says:
        assert isinstance(found, AmqpError)
        assert says in found.description
    else:
        assert found == to
