"""The permission that each operation of a peer needs: one table, for links and `$management`.

Rule 1: every operation has a row, or this file doesn't type-check: `right` ends in `assert_never`.
Rule 2: a user must fulfil all needs of an operation's row; any one action fulfils a need.
Rule 3: an action other than `manage` on a subscription also needs the right to its name: a name
        that is another user's can't be used (`owned_names`).
Rule 4: a user who may neither see nor end a subscription is told that it doesn't exist.

The table in `docs/guides/security.md` is made of this one, and a test compares them.
"""

from enum import StrEnum
from typing import TypeAlias, assert_never

import msgspec

from distributary.pipeline.management.management_messages import Entity, Verb
from distributary.pipeline.model.amqp_error import UNAUTHORIZED, AmqpError
from distributary.pipeline.model.subscription import SubscriptionKey
from distributary.pipeline.subscriptions.owned_names import ANYBODYS, OwnedNames
from distributary.pipeline.subscriptions.permission import EVERYTHING, Action, Permissions


class LinkOperation(StrEnum):
    """An operation of a peer's links and their messages; the words are those of the guide."""

    SEND = "attach a producer"
    RELAY = "attach a producer that names no destination"
    SEND_BY_RELAY = "send a message that names its destination"
    POST_BY_RELAY = "send such a message in a transaction"
    ANSWER = "let a request to `$management` be answered there"
    COORDINATE = "declare and end transactions"
    MAKE_QUEUE = "use a queue that isn't there yet"
    CONSUME = "attach a consumer"
    CONSUME_PATTERN = "attach a consumer of a pattern; messages need `consume` on their topic"
    BROWSE = "browse a queue or a durable subscription"
    MAKE_DURABLE = "make a durable subscription by attaching to it"
    REDEFINE = "put another definition in the place of a durable subscription"
    LOOK_UP = "look up a durable subscription, to end it"
    END_DURABLE = "end a durable subscription by closing its last link"
    MAKE_TEMPORARY = "make a temporary destination"
    SEND_TO_OWN_TEMPORARY = "send to a temporary destination of one's own connection"
    SEND_TO_TEMPORARY = "send to a temporary destination of another connection"
    CONSUME_OWN_TEMPORARY = "consume from a temporary destination of one's own connection"
    SET_POLICY = "give a subscription or queue a policy, while it is made or later"
    SET_DEAD_LETTERS = "name the queue of its dead letters in that policy"


#: All operations of a peer.
UserOperation: TypeAlias = LinkOperation | Verb


class At(StrEnum):
    """The destination that a need is about."""

    HERE = "there"  #: the operation's destination
    FORMER = "on the topic that it had"  #: the topic of the subscription that is redefined


class Need(msgspec.Struct, frozen=True):
    """A need: any one of these actions must be allowed at a destination."""

    actions: tuple[Action, ...]
    at: At = At.HERE


class Right(msgspec.Struct, frozen=True):
    """The needs of an operation, all of which a user must fulfil; without needs it is free to all
    users."""

    needs: tuple[Need, ...] = ()


_FREE = Right()
_PUBLISH = Right((Need((Action.PUBLISH,)),))
_CONSUME = Right((Need((Action.CONSUME,)),))
_CREATE = Right((Need((Action.CREATE,)),))
_MANAGE = Right((Need((Action.MANAGE,)),))
_READ = Right((Need((Action.CONSUME, Action.MANAGE)),))
_MAKE_OR_END = Right((Need((Action.CREATE, Action.MANAGE)),))
_REDEFINE = Right(
    (Need((Action.CREATE,)), Need((Action.CREATE, Action.MANAGE), At.FORMER)),
)


def right(operation: UserOperation) -> Right:
    """Return the row of an operation."""
    match operation:
        case (
            LinkOperation.RELAY
            | LinkOperation.COORDINATE
            | LinkOperation.SEND_TO_OWN_TEMPORARY
            | LinkOperation.CONSUME_OWN_TEMPORARY
            | LinkOperation.CONSUME_PATTERN
            | Verb.GET_TYPES
            | Verb.GET_OPERATIONS
            | Verb.PREPARE
            | Verb.COMMIT
            | Verb.ROLLBACK
        ):
            return _FREE
        case (
            LinkOperation.SEND
            | LinkOperation.SEND_BY_RELAY
            | LinkOperation.POST_BY_RELAY
            | LinkOperation.SEND_TO_TEMPORARY
            | LinkOperation.ANSWER
            | LinkOperation.SET_DEAD_LETTERS
        ):
            return _PUBLISH
        case LinkOperation.CONSUME | LinkOperation.BROWSE | Verb.ACQUIRE | Verb.SETTLE:
            return _CONSUME
        case LinkOperation.MAKE_QUEUE | LinkOperation.MAKE_DURABLE | LinkOperation.MAKE_TEMPORARY:
            return _CREATE
        case LinkOperation.REDEFINE:
            return _REDEFINE
        case LinkOperation.LOOK_UP | LinkOperation.END_DURABLE | Verb.CREATE | Verb.DELETE:
            return _MAKE_OR_END
        case Verb.READ | Verb.QUERY | Verb.HELD | Verb.OWED:
            return _READ
        case (
            LinkOperation.SET_POLICY
            | Verb.UPDATE
            | Verb.PAUSE
            | Verb.RESUME
            | Verb.PURGE
            | Verb.REWIND
            | Verb.SKIP
            | Verb.REDRIVE
            | Verb.CLOSE
            | Verb.HINT
        ):
            return _MANAGE
        case _ as never:
            assert_never(never)


def right_of_request(entity: Entity, verb: Verb) -> Right:
    """Return the row of a request. The gateway's own numbers are free to all users. Setting and
    dropping a schema needs `manage` on its topics. A prepared transaction may be ended by its user
    and by users who may manage all of its topics (`TransactionRequests`)."""
    if entity is Entity.SCHEMA and verb is Verb.DELETE:
        return _MANAGE
    return _FREE if entity in (Entity.NODE, Entity.TRANSACTION) else right(verb)


class Rights(msgspec.Struct, frozen=True):
    """All users' rights: the permissions and the owned names as they are written now."""

    permissions: Permissions = EVERYTHING
    names: OwnedNames = ANYBODYS

    def amqp_error(
        self,
        user: str,
        operation: UserOperation,
        topic: str,
        key: SubscriptionKey | None = None,
        former: str = "",
    ) -> AmqpError | None:
        """Return None when the user may do this to the destination `topic` (its word in the log),
        else the error for the peer. `key` is the operation's subscription, if it has a name;
        `former` the topic of the subscription that is redefined."""
        for need in right(operation).needs:
            where = topic if need.at is At.HERE else former
            why = self._lacks(user, need, where, key)
            if why is not None:
                return why
        return None

    def allow(
        self, user: str, operation: UserOperation, topic: str, key: SubscriptionKey | None = None
    ) -> bool:
        """Whether the user may do this, as in `amqp_error`."""
        return self.amqp_error(user, operation, topic, key) is None

    def sees(self, user: str, key: SubscriptionKey, topic: str) -> bool:
        """Whether the user may know of this subscription: that is, may read or end it."""
        return self.allow(user, Verb.READ, topic, key) or self.allow(user, Verb.DELETE, topic, key)

    def taken(self, key: SubscriptionKey) -> AmqpError:
        """Return the refusal of a name whose subscription the user may not see."""
        return AmqpError(UNAUTHORIZED, f"the name {key.id} can't be used here: choose another one")

    def _lacks(
        self, user: str, need: Need, topic: str, key: SubscriptionKey | None
    ) -> AmqpError | None:
        manages = Action.MANAGE in need.actions
        if manages and self.permissions.allow(user, Action.MANAGE, topic):
            return None
        others = [action for action in need.actions if action is not Action.MANAGE]
        if any(self.permissions.allow(user, action, topic) for action in others):
            return self.names.amqp_error(user, key)
        return self.permissions.amqp_error(user, topic, *need.actions)


def actions_of(operation: UserOperation) -> str:
    """Return the actions that an operation needs, as a text for log lines."""
    return " and ".join(" or ".join(need.actions) for need in right(operation).needs)


def words(needed: Right) -> str:
    """Return a row's right in the guide's words."""
    if not needed.needs:
        return "none"
    return ", and ".join(_words(need) for need in needed.needs)


def _words(need: Need) -> str:
    actions = " or ".join(f"`{action.value}`" for action in need.actions)
    return actions if need.at is At.HERE else f"{actions} {need.at.value}"


def table() -> str:
    """Return all rows in Markdown, as in the guide."""
    lines = ["| by a link or a message | permission |", "|---|---|"]
    lines += [f"| {one.value} | {words(right(one))} |" for one in LinkOperation]
    lines += ["", "| request to `$management` | permission |", "|---|---|"]
    lines += [f"| {verb.value} | {words(right(verb))} |" for verb in Verb]
    return "\n".join(lines) + "\n"
