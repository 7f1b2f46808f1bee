"""The file in the guide is one that can be used, and says what the guide says."""

import re
import tomllib
from pathlib import Path

import pytest

from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.model.policy import DEFAULT, DEFAULT_TOPIC, Overflow
from distributary.pipeline.subscriptions.policy_table import Policies, parse

GUIDE = (Path(__file__).parents[3] / "docs/guides/policies.md").read_text()


def written() -> str:
    return re.findall(r"```toml\n# policies.toml\n(.*?)```", GUIDE, re.DOTALL)[0]


def policies(text: str) -> Policies:
    return parse(tomllib.loads(text), DEFAULT, DEFAULT_TOPIC)


def test_the_file_in_the_guide_says_what_it_seems_to() -> None:
    """Lines add up, in their order."""
    found = policies(written())
    payments = found.of_subscription("queue/payments")
    assert payments.delivery_attempts_max == 5
    assert payments.single_active
    assert payments.dead_letter_address == "payments-failed"
    assert found.of_subscription("container/office/audit").consumers_max == 1
    assert found.of_topic("queue://payments").seeks_duplicates
    assert found.of_topic("ticks.eu").backlog.overflow is Overflow.DROP_OLDEST


def test_the_mistake_in_the_guide_is_told_so() -> None:
    """Word by word."""
    wrong = written().replace("redelivery_delay_ms = 1_000", "redelivery_delay_ms = 90_000")
    with pytest.raises(InvalidRequest) as refused:
        policies(wrong)
    assert str(refused.value) in GUIDE
