"""Age of what the log has recorded, perhaps by another machine, whose clock was ahead of ours.

Our own clock never goes back, so a time to come was recorded before our start.
"""


def is_young(at: int, now: int, within: int) -> bool:
    """Whether a record of the time `at` is younger than `within`, all in microseconds. One of a
    time to come is older than our start: it isn't young."""
    return now - within < at <= now
