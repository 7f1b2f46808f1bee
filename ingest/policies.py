"""The policies in force, from the settings and from a file that may change while the gateway runs.

The file is read again when it changes (looked at once a second) and on SIGHUP. A new version that
can't be used is reported, and the old one stays; what is new holds at once, also for the
subscriptions that are there.
"""

import asyncio
import tomllib
from collections.abc import Callable
from pathlib import Path

import structlog

from ingest.settings import Settings
from ingest.watched import LOOK_SECONDS, Part
from pipeline import policy_table
from pipeline.errors import InvalidRequest
from pipeline.policy import Policy, TopicPolicy
from pipeline.subscription import SubscriptionKey

#: What the queues of dead letters are named that nobody names otherwise.
DEAD_LETTERS = "queue://DLQ."

_events = structlog.get_logger("gateway")


class Policies:
    """What the gateway asks about policies; each answer is that of the moment.

    `changed` is called after the file was read again.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, settings: Settings) -> None:
        """Raises InvalidRequest when the file can't be used."""
        self._loop = loop
        file = settings.delivery.policies
        policy, topic_policy = settings.policy, settings.topic_policy
        self._written = Part("policies", (file,), lambda: _read(file, policy, topic_policy))
        self.changed: Callable[[], None] = lambda: None
        self._timer: asyncio.TimerHandle | None = None

    def of_subscription(self, key: SubscriptionKey | None, own: str = "") -> Policy:
        """The policy of a subscription, of which no pattern speaks if it has no name (None). `own`
        is what its record says. Raises InvalidRequest when that isn't right."""
        written = self._written.value
        return written.default if key is None else written.of_subscription(key.id, own)

    def check_own(self, key: SubscriptionKey, own: str) -> None:
        """Raises InvalidRequest when a subscription can't say this of itself."""
        self._written.value.check_own(own, key.id)

    def of_topic(self, topic: str) -> TopicPolicy:
        """What holds for a topic or queue, by its word in the log."""
        return self._written.value.of_topic(topic)

    def watch(self) -> None:
        """From now on look at the file."""
        self._timer = self._loop.call_later(LOOK_SECONDS, self._looked)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def reload(self) -> None:
        """Read the file again, changed or not."""
        self._renew(anyway=True)

    def _looked(self) -> None:
        self._renew(anyway=False)
        self.watch()

    def _renew(self, *, anyway: bool) -> None:
        try:
            if not self._written.renew(anyway=anyway):
                return
        except InvalidRequest as error:
            _events.warning("policies.kept", reason=str(error), then="the old ones hold")
            return
        _events.info("policies.reloaded")
        self.changed()


def buries(key: SubscriptionKey | None, topic: str, policy: Policy) -> bool:
    """Whether copies are kept of what the subscription gives up: of what lasts, but not of what is
    dead letters itself, which would go round for ever."""
    if key is None or not key.durable or not policy.dead_letter:
        return False
    own = policy_table.dead_letter_queue(policy.dead_letter_address)
    return not topic.startswith(DEAD_LETTERS) and (own is None or own.topic != topic)


def _read(file: str, default: Policy, default_topic: TopicPolicy) -> policy_table.Policies:
    if not file:
        return policy_table.Policies(default, default_topic)
    try:
        tree = tomllib.loads(Path(file).read_text())
        return policy_table.parse(tree, default, default_topic)
    except OSError as error:
        raise InvalidRequest(f"policies file {file} can't be read: {error.strerror}") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, InvalidRequest) as error:
        raise InvalidRequest(f"policies file {file}: {error}") from None
