"""Destinations of the messages of a run, if some of them go elsewhere."""

from itertools import repeat
from random import Random

from distributary.ingest.publish.relay import Goal, Goals, but
from distributary.pipeline.model.amqp_error import AmqpError


def message_by_message(goals: Goals) -> list[Goal]:
    return [goal for goal, count in goals for goal in repeat(goal, count)]


def test_others_take_their_places() -> None:
    """Against a list with one goal for each message."""
    for seed in range(500):
        drawn = Random(seed)
        goals: Goals = [
            (drawn.choice(("a", "b")), drawn.randrange(1, 5)) for _ in range(drawn.randrange(1, 6))
        ]
        plain = message_by_message(goals)
        others: dict[int, Goal] = {
            place: AmqpError("amqp:decode-error", str(place))
            for place in drawn.sample(range(len(plain)), drawn.randrange(len(plain) + 1))
        }
        for place, goal in others.items():
            plain[place] = goal
        found = but(goals, others)
        assert message_by_message(found) == plain, seed
        assert all(count > 0 for _, count in found), seed
