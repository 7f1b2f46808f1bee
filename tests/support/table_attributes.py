"""Messages that aren't plain, as groups, and what each of them says."""

import random

import numpy as np
from table_groups import DAY_US, NOON, bodies, group, run

from distributary.pipeline.codec.buffers import Bytes
from distributary.pipeline.model.header_attributes import HeaderAttributes
from distributary.pipeline.model.message import Group, PublishBatch

#: Priority, expiry, earliest delivery; those of a plain message are left out of models.
Said = tuple[int, int, int]
PLAIN: Said = (4, 0, 0)


def value(column: Bytes, kind: str, at: int, usual: int) -> int:
    numbers = np.frombuffer(column, kind)
    return int(numbers[at]) if len(numbers) else usual


def said(attributes: HeaderAttributes, sequence: int) -> Said:
    """The header attributes of one message."""
    at = attributes.place(sequence)
    return (
        value(attributes.priority, "u1", at, 4),
        value(attributes.expires_at, "i8", at, 0),
        value(attributes.deliver_at, "i8", at, 0),
    )


def drawn(chance: random.Random, topic: str, count: int) -> tuple[PublishBatch, list[Said]]:
    """A run, and the attributes of its messages; many are plain, or in one column."""
    kinds = [chance.random() < 0.3 for _ in range(3)]

    def column(nth: int, values: list[int]) -> list[int]:
        some = kinds[nth]
        return [chance.choice([PLAIN[nth], *values]) if some else PLAIN[nth] for _ in range(count)]

    columns = [
        column(0, [0, 4, 7, 9]),
        column(1, [NOON + 1, NOON + 10**9]),
        column(2, [NOON + 5, NOON + DAY_US]),
    ]
    made = run(
        topic,
        bodies(count, 20),
        priority=columns[0],
        expires_at=columns[1] if kinds[1] else (),
        deliver_at=columns[2] if kinds[2] else (),
    )
    return made, list(zip(*columns, strict=True))


def history(seed: int) -> tuple[list[Group], dict[str, dict[int, Said]]]:
    """Groups with runs of three topics, and what is said of the messages that aren't plain."""
    chance = random.Random(seed)
    groups, sequence = [], 0
    due: dict[str, dict[int, Said]] = {}
    for number in range(1, 40):
        runs, first = [], sequence
        for _ in range(chance.randint(0, 4)):
            topic = f"topic-{chance.randrange(3)}"
            made, words = drawn(chance, topic, chance.randint(1, 60))
            runs.append(made)
            of_topic = due.setdefault(topic, {})
            of_topic |= {sequence + i: one for i, one in enumerate(words) if one != PLAIN}
            sequence += made.count
        groups.append(group(number, first, *runs))
    return groups, due
