"""Source of each key of a policy in force, as a text: the line of the policies' file, `own` (the
subscription's record), or `settings` (the gateway's). Keys with their default have no source.
"""

from typing import Final

from distributary.pipeline.model.policy import (
    DEFAULT,
    DEFAULT_TOPIC,
    Backlog,
    Policy,
    TopicPolicy,
)
from distributary.pipeline.subscriptions.permission import Pattern, fits
from distributary.pipeline.subscriptions.policy_table import Policies, of_text

#: Keys of a topic's policy that hold for its subscriptions unless their own policy has the key.
_INHERITED: Final = ("page_bytes", "backlog_")


def of_subscription(
    policies: Policies, subscription_id: str, topic: str, own: str = ""
) -> dict[str, str]:
    """Return the sources of a subscription's policy, with the topic's keys that it inherits."""
    found = _of_settings(policies.default, DEFAULT)
    for key, where in of_topic(policies, topic).items():
        if key.startswith(_INHERITED):
            found.setdefault(key, where)
    for line in policies.subscriptions:
        if isinstance(line.match, str) and fits(line.match, subscription_id):
            found |= dict.fromkeys(line.said, line.where)
    return found | dict.fromkeys(of_text(own, subscription_id), "own")


def of_topic(policies: Policies, topic: str) -> dict[str, str]:
    """Return the sources of the policy of a topic or queue, by its word in the log."""
    found = _of_settings(policies.default_topic, DEFAULT_TOPIC)
    for line in policies.topics:
        if isinstance(line.match, Pattern) and line.match.matches_topic(topic):
            found |= dict.fromkeys(line.said, line.where)
    return found


def _of_settings(
    policy: Policy | TopicPolicy | Backlog,
    default: Policy | TopicPolicy | Backlog,
    prefix: str = "",
) -> dict[str, str]:
    """Return the keys whose value in the gateway's settings differs from the default."""
    found: dict[str, str] = {}
    for name in policy.__struct_fields__:
        value, usual = getattr(policy, name), getattr(default, name)
        if isinstance(value, Backlog):
            found |= _of_settings(value, usual, "backlog_")
        elif value != usual:
            found[prefix + name] = "settings"
    return found
