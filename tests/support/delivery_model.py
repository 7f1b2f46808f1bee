"""One subscription as a list of message objects: what may happen to each, without any speed.

The model doesn't say which message goes to whom; it says of each effect whether it may be, and what
must be true when nothing more is wanted.
"""

from dataclasses import dataclass, field

from distributary.pipeline.dispatch.effects import NOBODY, DeadLetter, Deliver, Settled
from distributary.pipeline.dispatch.message_groups import BUCKETS
from distributary.pipeline.model.outcome import Outcome, Reason
from distributary.pipeline.model.policy import Overflow

OWN = {
    Reason.REJECTED: Outcome.REJECTED,
    Reason.UNDELIVERABLE: Outcome.MODIFIED,
    Reason.EXHAUSTED: Outcome.MODIFIED,
    Reason.EXPIRED: Outcome.EXPIRED,
    Reason.OVERFLOW: Outcome.DROPPED,
}


@dataclass
class Message:
    sequence: int
    priority: int = 4
    expires_at: int = 0
    deliver_at: int = 0
    group: int = 0
    colours: frozenset = frozenset()
    place: str = "owed"  # owed (read or not), held, dead_lettered (given up, no copy yet), gone
    holder: int = 0
    since: int = 0  # when it was delivered
    grouped: bool = False  # a consumer got it as one of its group, not claimed alone
    due: int = 0  # after a failure: not before this
    failures: int = 0  # those that were shown
    uncertain: int = 0  # attempts before a crash whose end is unknown
    lost: bool = False  # a lost consumer may have seen it

    @property
    def told(self):
        """Failed attempts, as consumers are told."""
        return self.failures + max(self.uncertain, self.lost)

    @property
    def recorded(self):
        """Failed attempts, as they are recorded."""
        return self.failures + self.uncertain

    def waits(self, now):
        """Whether it must not go yet."""
        return max(self.due, self.deliver_at) > now

    def expired(self, now):
        return 0 < self.expires_at <= now

    @property
    def bucket(self):
        return self.group % BUCKETS if self.group else None

    @property
    def order(self):
        return -self.priority, self.sequence


@dataclass
class ModelConsumer:
    priority: int
    selector: str | None
    credit: int = 0
    lost: dict = field(default_factory=dict)  # what it may settle late -> delivered when

    def may(self, message):
        return self.selector is None or self.selector in message.colours


class Model:
    def __init__(self, policy, *, dead_letters):
        self.policy, self.dead_letters = policy, dead_letters
        self.messages = {}
        self.consumers = {}
        self.owners = {}  # bucket -> consumer
        self.active = None

    def keeps(self, reason):
        policy = self.policy
        return (
            self.dead_letters
            and policy.dead_letter
            and (reason is not Reason.EXPIRED or policy.dead_letter_expired)
            and (reason is not Reason.OVERFLOW or policy.backlog.overflow is Overflow.DEAD_LETTER)
        )

    def at(self, *places):
        return [one for one in self.messages.values() if one.place in places]

    def held_by(self, consumer):
        return [one for one in self.at("held") if one.holder == consumer]

    # What may be.

    def gets(self, consumer):
        """Whether messages go to this consumer as far as credit and activity say."""
        entry = self.consumers[consumer]
        return entry.credit > 0 and (not self.policy.single_active or self.active == consumer)

    def blocked(self, message, now):
        """Whether another message of its group is delivered again later. The group of a claimed
        message isn't known if the message was never given to a consumer."""
        mates = [
            one
            for one in self.at("owed")
            if one.bucket == message.bucket and one is not message and one.due > now
            if one.grouped
        ]
        return self.policy.message_groups and message.bucket is not None and bool(mates)

    def may_have(self, consumer, message, now):
        """Whether this consumer may be given the message now, if it is its turn."""
        if message.place != "owed" or message.waits(now) or message.expired(now):
            return False
        if not self.gets(consumer) or not self.consumers[consumer].may(message):
            return False
        if self.blocked(message, now):
            return False
        grouped = self.policy.message_groups and message.bucket is not None
        return not grouped or self.owners.get(message.bucket, consumer) == consumer

    def deliver(self, effect, now):
        for sequence in effect.run:
            message = self.messages[sequence]
            assert message.told == effect.delivery_count
            limit = self.policy.delivery_attempts_max
            assert not limit or message.failures < limit
            assert self.may_have(effect.consumer, message, now), (effect, message)
            self.consumers[effect.consumer].credit -= 1
            self.hold(effect.consumer, message, now)
            if self.policy.message_groups and message.bucket is not None:
                message.grouped = True
                self.owners[message.bucket] = effect.consumer

    @staticmethod
    def hold(consumer, message, now):
        message.place, message.holder, message.since = "held", consumer, now
        message.due = 0

    def gave_up_unasked(self, effect, now):
        """An effect of an offer that is no delivery: expired, or found exhausted."""
        assert effect.consumer == NOBODY
        for sequence in effect.run:
            message = self.messages[sequence]
            limit = self.policy.delivery_attempts_max
            reason = Reason.EXPIRED if message.expired(now) else Reason.EXHAUSTED
            assert message.expired(now) or 0 < limit <= message.failures
            assert message.place == "owed"
            self.check_given_up(effect, message, reason, NOBODY)

    def check_given_up(self, effect, message, reason, consumer):
        assert effect.consumer == consumer
        assert effect.delivery_count == message.recorded
        if self.keeps(reason):
            assert isinstance(effect, DeadLetter), effect
            assert effect.reason is reason
            message.place = "dead_lettered"
        else:
            assert isinstance(effect, Settled), effect
            assert (effect.outcome, effect.final) == (OWN[reason], True)
            message.place = "gone"

    def offered(self, effects, now):
        for effect in effects:
            if isinstance(effect, Deliver):
                self.deliver(effect, now)
            else:
                self.gave_up_unasked(effect, now)

    def idle(self, now):
        """Nothing is left to do: no message waits that a consumer may have."""
        for message in self.at("owed"):
            if message.expired(now) and not message.waits(now):
                continue
            for consumer in self.consumers:
                assert not self.may_have(consumer, message, now), (consumer, message)

    # What a command does.

    def fail(self, message, delay):
        """One more failed attempt; its consumer holds it no more."""
        message.failures += 1
        limit = self.policy.delivery_attempts_max
        if 0 < limit <= message.failures:
            message.place = "dead_lettered" if self.keeps(Reason.EXHAUSTED) else "gone"
        else:
            message.place, message.due = "owed", delay

    def attach(self, consumer, priority, selector):
        self.consumers[consumer] = ModelConsumer(priority, selector)
        if self.policy.message_groups:
            held = {one.bucket for one in self.at("held") if one.grouped}
            self.owners = {b: c for b, c in self.owners.items() if b in held}
        if self.active is None:
            self.active = consumer

    def detach(self, consumer):
        del self.consumers[consumer]
        self.owners = {b: c for b, c in self.owners.items() if c != consumer}
        if self.active == consumer:
            self.active = max(
                self.consumers, key=lambda one: self.consumers[one].priority, default=None
            )
        for message in self.held_by(consumer):
            message.place = "owed"

    def lose(self, consumer):
        """It may have seen what it held; that comes back, or has failed (`fail`)."""
        for message in self.held_by(consumer):
            message.lost = True
        self.detach(consumer)

    def crash(self, possibly_delivered_below):
        """No message is held, and none waits for its time after a failure."""
        for message in self.at("held", "dead_lettered", "owed"):
            message.place, message.due, message.grouped = "owed", 0, False
            message.uncertain = int(message.sequence < possibly_delivered_below)
        self.consumers.clear()
        self.owners.clear()
        self.active = None
