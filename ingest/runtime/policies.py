"""The policies in force, from the settings and from a file that may change while the gateway runs.

The file is read again when it changes (checked once a second) and on SIGHUP. An invalid new version
is reported, and the old one stays in force; a valid one applies at once, also to existing
subscriptions.
"""

import asyncio
import tomllib
from collections.abc import Callable
from pathlib import Path

import structlog
from msgspec.structs import replace

from distributary.ingest.runtime.settings import Settings
from distributary.ingest.runtime.watched import Part, Watch
from distributary.pipeline.amqp.dead_letter import PREFIX, queue_of
from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.model.address import PREFIXES, Destination, Kind
from distributary.pipeline.model.policy import (
    DEFAULT,
    DEFAULT_TOPIC,
    Policy,
    TopicPolicy,
    unreachable,
)
from distributary.pipeline.model.subscription import SubscriptionKey
from distributary.pipeline.model.topic_pattern import PatternStyle
from distributary.pipeline.subscriptions import policy_sources, policy_table

#: Most topics whose policies are cached: publishing asks for them.
TOPICS_MAX = 10_000
#: Prefix of the dead letters' queues that no policy names otherwise.
_DEAD_LETTERS = f"{PREFIXES[Kind.QUEUE]}{PREFIX}"

_events = structlog.get_logger("gateway")


class Policies:
    """The policies in force; each method uses those of the moment."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        written: Part[policy_table.Policies],
        style: PatternStyle,
    ) -> None:
        """`written` outlives this object: a process makes it once, at its start; `style`:
        `delivery.pattern_style`."""
        self._written, self._style = written, style
        self._of_topics: dict[str, TopicPolicy] = {}
        self._followers: list[Callable[[], None]] = []
        self._watch = Watch(loop, self.look)

    def of_subscription(self, key: SubscriptionKey | None, topic: str, own: str = "") -> Policy:
        """Return the policy of a subscription on this topic; patterns don't apply to one without a
        name (None). `own` is its own policy in the log. Raises InvalidRequest if that is
        invalid."""
        written = self._written.value
        policy = written.default if key is None else written.of_subscription(key.id, own)
        of_topic = self.of_topic(topic)
        backlog = policy.backlog if policy.backlog.limits else of_topic.backlog
        return replace(policy, backlog=backlog, page_bytes=policy.page_bytes or of_topic.page_bytes)

    def sources(self, key: SubscriptionKey, topic: str, own: str = "") -> dict[str, str]:
        """Return the source of each key of its policy that isn't a default."""
        return policy_sources.of_subscription(self._written.value, key.id, topic, own)

    def topic_sources(self, topic: str) -> dict[str, str]:
        """Return the source of each key of a topic's or queue's policy that isn't a default."""
        return policy_sources.of_topic(self._written.value, topic)

    def check_own(self, key: SubscriptionKey, own: str, before: str = "") -> None:
        """Check a subscription's own policy, which may have the queue of dead letters that it had
        `before`. Raises InvalidRequest when it is invalid."""
        self._written.value.check_own(own, key.id)
        where = f"subscription {key.id}"
        wanted, former = (
            policy_table.over(DEFAULT, policy_table.of_text(text, where), where)
            for text in (own, before)
        )
        if wanted.dead_letter_address != former.dead_letter_address:
            _check_reachable(wanted, self._style, where)

    @property
    def seek_duplicates(self) -> bool:
        """Whether duplicates are looked for on any topic."""
        return self._written.value.seek_duplicates

    def of_topic(self, topic: str) -> TopicPolicy:
        """Return the policy of a topic or queue, by its word in the log."""
        policy = self._of_topics.get(topic)
        if policy is None:
            if len(self._of_topics) >= TOPICS_MAX:
                self._of_topics.clear()
            policy = self._of_topics[topic] = self._written.value.of_topic(topic)
        return policy

    def dead_letters_of_topic(self, topic: str) -> Destination:
        """Return the queue for messages that a topic's or queue's schema doesn't allow: never the
        queue itself."""
        own = policy_table.dead_letter_queue(self.of_topic(topic).dead_letter_address)
        if own is not None and own.topic != topic:
            return own
        queue = topic.removeprefix(PREFIXES[Kind.QUEUE])
        giver = f"topic/{topic}" if queue == topic else f"queue/{queue}"
        return Destination(Kind.QUEUE, queue_of(giver))

    def follow(self, changed: Callable[[], None]) -> None:
        """Call `changed` whenever the file was read again, from now on."""
        self._followers.append(changed)

    def watch(self) -> None:
        """Check the file for changes, from now on."""
        self._watch.start()

    def close(self) -> None:
        self._watch.close()

    def look(self) -> None:
        """Read the file again if it has changed."""
        self._renew(anyway=False)

    def reload(self) -> None:
        """Read the file again, changed or not."""
        self._renew(anyway=True)

    def _renew(self, *, anyway: bool) -> None:
        try:
            if not self._written.renew(anyway=anyway):
                return
        except InvalidRequest as error:
            _events.warning("policies.kept", reason=str(error), then="the old ones hold")
            return
        _events.info("policies.reloaded")
        self._of_topics.clear()
        for changed in self._followers:
            changed()


def policies_written(settings: Settings) -> Part[policy_table.Policies]:
    """Read the policies of the settings and the file. Raises InvalidRequest for an invalid file."""
    file = settings.delivery.policies
    policy, topic_policy = settings.policy, settings.topic_policy
    style = settings.delivery.pattern_style
    return Part("policies", (file,), lambda: _read(file, policy, topic_policy, style))


def keeps_dead_letters(key: SubscriptionKey, topic: str, policy: Policy) -> bool:
    """Whether copies of messages that the subscription gives up may be kept: if it is durable, but
    not of dead letters themselves, which would circulate without end."""
    own = policy_table.dead_letter_queue(policy.dead_letter_address)
    dead = topic.startswith(_DEAD_LETTERS) or (own is not None and own.topic == topic)
    return key.durable and not dead


def _read(
    file: str, default: Policy, default_topic: TopicPolicy, style: PatternStyle
) -> policy_table.Policies:
    unwritten = policy_table.Policies(default, default_topic)
    _check_written(unwritten, style)
    if not file:
        return unwritten
    try:
        tree = tomllib.loads(Path(file).read_text())
        written = policy_table.parse(tree, default, default_topic)
        _check_written(written, style)
    except OSError as error:
        raise InvalidRequest(f"policies file {file} can't be read: {error.strerror}") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, InvalidRequest) as error:
        raise InvalidRequest(f"policies file {file}: {error}") from None
    return written


def _check_written(policies: policy_table.Policies, style: PatternStyle) -> None:
    """Check the names to which defaults and lines send messages. Raises InvalidRequest."""
    _check_reachable(policies.default, style, "[subscription]")
    _check_reachable(policies.default_topic, style, "[topic]")
    for line in policies.subscriptions:
        _check_reachable(policy_table.over(DEFAULT, line.said, line.where), style, line.where)
    for line in policies.topics:
        policy = policy_table.topic_over(DEFAULT_TOPIC, line.said, line.where)
        _check_reachable(policy, style, line.where)


def _check_reachable(policy: Policy | TopicPolicy, style: PatternStyle, where: str) -> None:
    if why := unreachable(policy, style):
        raise InvalidRequest(f"{where}: {why}")
