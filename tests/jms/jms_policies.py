"""Queues of a gateway with policies: their names, and the policy of each."""

from collections.abc import Mapping
from pathlib import Path

POLICIES = """
[[subscription]]
match = "queue/alone*"
consumers_max = 1
[[subscription]]
match = "queue/active*"
single_active = true
[[subscription]]
match = "queue/twice*"
delivery_attempts_max = 2
redelivery_delay_ms = 500
[[subscription]]
match = "queue/locked*"
lock_ms = 3_000
[[subscription]]
match = "queue/dated*"
dead_letter_expired = true
[[subscription]]
match = "queue/small*"
backlog_messages_max = 2
[[topic]]
match = "queue://once*"
duplicates_messages = 100
"""


def ruled(folder: Path) -> Mapping[str, Mapping[str, object]]:
    """The settings of a gateway; the file that they name is made in the folder."""
    folder.mkdir()
    policies = folder / "policies.toml"
    policies.write_text(POLICIES)
    return {"delivery": {"policies": str(policies)}}
