"""An owner's deliveries by number: the same as a plain dictionary of them."""

import random
from array import array

import pytest

from distributary.ingest.relaying.owners.owner_deliveries import OwnerDeliveries
from distributary.pipeline.sequences.sequence_set import Run


def drawn_numbers(draw: random.Random, end: int) -> Run:
    """A range, in steps or without, or some that ascend; not all of them were given."""
    start = draw.randrange(end + 2)
    stop = start + draw.randrange(12)
    match draw.randrange(3):
        case 0:
            return range(start, stop)
        case 1:
            return range(start, stop, 3)
    return array("q", sorted(draw.sample(range(end + 5), min(end, 4))))


@pytest.mark.parametrize("seed", range(20))
def test_they_are_held_as_in_a_dictionary(seed: int) -> None:
    draw = random.Random(seed)
    held, model, end, taken = OwnerDeliveries(), dict[int, int](), 1, list[int]()
    for delivery in range(1_000, 400_000, 1_000):
        match draw.randrange(5):
            case 0 | 1:
                new = array("Q", range(delivery, delivery + draw.randrange(1, 9)))
                model.update(enumerate(new, end))
                held.add(end, new)
                end += len(new) + draw.randrange(2)
            case 2 | 3:
                numbers = drawn_numbers(draw, end)
                wanted = [model.pop(number, 0) for number in numbers]
                assert held.take(numbers).tolist() == wanted
                taken += [number for number, one in zip(numbers, wanted, strict=True) if one]
            case 4 if taken:
                number = taken.pop(draw.randrange(len(taken)))
                if number not in model:
                    model[number] = delivery
                    held.have_again(number, delivery)
    numbers, deliveries = held.take_all()
    assert dict(zip(numbers, deliveries, strict=True)) == model
    assert not any(held.take(range(end)))
