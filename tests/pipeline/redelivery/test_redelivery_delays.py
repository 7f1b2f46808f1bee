"""How long a failed message waits: a literal rule."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from distributary.pipeline.model.policy import DEFAULT
from distributary.pipeline.redelivery.redelivery_delay import delay_us

GROWS = replace(
    DEFAULT,
    redelivery_delay_ms=100,
    redelivery_multiplier=2.0,
    redelivery_delay_ms_max=1_000,
)


@pytest.mark.parametrize(
    ("failures", "milliseconds"), [(1, 100), (2, 200), (3, 400), (4, 800), (5, 1_000), (9, 1_000)]
)
def test_the_delay_grows_up_to_its_maximum(failures, milliseconds):
    """Each failure multiplies it."""
    assert delay_us(GROWS, 7, failures) == milliseconds * 1_000


def test_by_default_there_is_none():
    """A failed message comes back at once."""
    assert delay_us(DEFAULT, 7, 3) == 0


def test_what_can_not_be_counted_is_the_maximum():
    """However often a message failed, its delay is a number."""
    assert delay_us(GROWS, 7, 100_000) == 1_000_000


@given(st.integers(0, 2**62), st.integers(1, 20), st.floats(0, 1))
def test_jitter_stays_within_its_share_and_is_the_same_each_time(sequence, failures, jitter):
    """It changes a delay by no more than it says, up or down."""
    plain = delay_us(GROWS, sequence, failures)
    changed = delay_us(replace(GROWS, redelivery_jitter=jitter), sequence, failures)
    assert abs(changed - plain) <= plain * jitter + 1
    assert changed == delay_us(replace(GROWS, redelivery_jitter=jitter), sequence, failures)


def test_jitter_spreads_neighbours():
    """A thousand messages that fail together come back at about a thousand times, evenly."""
    policy = replace(GROWS, redelivery_jitter=0.5)
    delays = [delay_us(policy, sequence, 1) for sequence in range(1_000)]
    assert len(set(delays)) > 980
    for low in range(50_000, 150_000, 10_000):
        assert 60 < sum(low <= delay < low + 10_000 for delay in delays) < 140
