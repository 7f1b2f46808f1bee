"""Delay of a failed message's redelivery: a rule without state."""

from collections.abc import Iterator

from distributary.pipeline.model.policy import Policy
from distributary.pipeline.sequences.sequence_set import Run

_MASK = 2**64 - 1


def delay_us(policy: Policy, sequence: int, failures: int) -> int:
    """Return the microseconds to wait after this failure, the first one being 1.

    The delay grows by the multiplier up to its maximum; then it is changed by up to `jitter` of
    itself, pseudo-randomly: the same for the same sequence and failure.
    """
    delay = _grown(policy, failures)
    if policy.redelivery_jitter:
        delay *= 1 + policy.redelivery_jitter * (2 * _jitter(sequence, failures) - 1)
    return round(delay * 1_000)


def due_times(policy: Policy, run: Run, failures: int, now: int) -> Iterator[tuple[Run, int]]:
    """Yield the parts of a run that failed so often, each with its time of redelivery."""
    if not policy.redelivery_jitter:
        yield run, now + delay_us(policy, 0, failures)
        return
    for sequence in run:
        yield range(sequence, sequence + 1), now + delay_us(policy, sequence, failures)


def _grown(policy: Policy, failures: int) -> float:
    """Return the delay in milliseconds, before jitter."""
    limit = float(policy.redelivery_delay_ms_max)
    try:
        grown = policy.redelivery_delay_ms * policy.redelivery_multiplier ** (failures - 1)
    except OverflowError:
        return limit
    return min(grown, limit)


def _jitter(sequence: int, failures: int) -> float:
    """Return a number from 0 to 1 that differs widely between neighbours (splitmix64's finish)."""
    mixed = (sequence * 0x9E3779B97F4A7C15 + failures * 0xD1B54A32D192ED03) & _MASK
    mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
    return (mixed ^ (mixed >> 31)) / _MASK
