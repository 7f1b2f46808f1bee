"""Every row of the table of rights, done for real by every kind of user: what the row allows is
done, all else is refused, and of what a user may not see nothing is said.

The users are all sets of the four actions (`u-` and their first letters), who may do the same
somewhere else (`elsewhere`), who may do all but use others' names (`namesake`), and who comes
without a login. A row without a way to do it, or a request without one, is an error.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain, combinations, count
from pathlib import Path

import pytest
from gateway_links import Incoming, Outgoing, encoded
from gateway_management import NODE, Manager
from gateway_peer import Peer, selector
from gateway_process import Gateway
from proton import Delivery, Described, Endpoint, Terminus, ulong

from distributary.ingest.security.users import user_of
from distributary.ingest.security.users_file import changing
from distributary.pipeline.management.management_messages import REQUESTS, Entity, Verb
from distributary.pipeline.subscriptions.permission import Action
from distributary.pipeline.subscriptions.rights import (
    At,
    LinkOperation,
    Right,
    UserOperation,
    right,
    right_of_request,
)

L = LinkOperation
UNAUTHORIZED, NOT_FOUND = "amqp:unauthorized-access", "amqp:not-found"
ALL = tuple(Action)
SETS = [*chain.from_iterable(combinations(ALL, size) for size in range(len(ALL) + 1))]


def name_of(actions: tuple[Action, ...]) -> str:
    return "u-" + "".join(action.value[:2] for action in actions)


#: user -> the actions that he has where it is tried, and whether the names there are his.
USERS: dict[str, tuple[frozenset[Action], bool]] = {
    **{name_of(actions): (frozenset(actions), True) for actions in SETS},
    "elsewhere": (frozenset(), True),
    "namesake": (frozenset({Action.PUBLISH, Action.CONSUME, Action.CREATE}), False),
    "anonymous": (frozenset({Action.CONSUME}), True),
}


def line(user: str, actions: frozenset[Action], where: str) -> str:
    kinds = ("", "queue://", "temp-queue://", "temp-topic://")
    patterns = ", ".join(f'"{kind}{where}"' for kind in kinds)
    return f"[{user}]\n" + "".join(f"{action} = [{patterns}]\n" for action in sorted(actions))


@dataclass
class Place:
    """One gateway, its users' connections, and an operator who makes what is to be tried."""

    gateway: Gateway
    user_peer: Callable[[str], Peer]
    root: Peer
    operator: Manager
    managers: dict[str, Manager]

    def manager(self, user: str) -> Manager:
        if user not in self.managers:
            self.managers[user] = Manager(self.user_peer(user))
        return self.managers[user]


_numbers = count(1)


@dataclass
class Try:
    """One user doing one thing, with new names."""

    place: Place
    user: str

    def __post_init__(self) -> None:
        self.number = next(_numbers)
        self.topic, self.queue = f"tried-{self.number}", f"queue://tried-{self.number}"
        self.peer = self.place.user_peer(self.user)
        self.name = f"theirs-{self.number}"
        self.key = f"global/{self.name}"

    def opened(self, link: Incoming | Outgoing) -> str:
        """The condition with which an attach is refused; nothing if it isn't."""
        self.peer.until(
            lambda: link.link.state & (Endpoint.REMOTE_ACTIVE | Endpoint.REMOTE_CLOSED), "attach"
        )
        ready = self.peer.new_session()  # a refusal comes right behind the attach
        self.peer.until(lambda: ready.state & Endpoint.REMOTE_ACTIVE, "a session")
        ready.close()
        if self.peer.refused(link.link):
            return self.peer.amqp_error(link)
        self.peer.until(lambda: link.link.state & Endpoint.REMOTE_ACTIVE, "an attach")
        return ""

    def outcome(self, link: Outgoing, delivery: Delivery) -> str:
        state = link.outcome(delivery)
        if state == Delivery.ACCEPTED:
            return ""
        assert state == Delivery.REJECTED, state
        return str(delivery.remote.condition.name)

    def durable(self) -> None:
        """The operator makes a durable subscription of the topic."""
        self.place.operator.done("CREATE", "subscription", self.key, topic=self.topic)

    def temporary(self) -> str:
        made = self.place.root.receiver(None, dynamic=True, capabilities=())
        return str(made.link.remote_source.address)

    # One way for each operation; what it gives is the refusal's condition, or nothing.

    def send(self) -> str:
        return self.opened(self.peer.sender(self.topic, opened=False))

    def relay(self) -> str:
        return self.opened(self.peer.sender(None, opened=False))

    def consume_pattern(self) -> str:
        return self.opened(self.peer.receiver(f"{self.topic}.*", opened=False))

    def send_by_relay(self) -> str:
        relay = self.peer.sender(None)
        return self.outcome(relay, relay.send(encoded(1, address=self.topic)))

    def post_by_relay(self) -> str:
        control = self.peer.sender(None, kind=Terminus.COORDINATOR)
        declare = control.send(encoded(Described(ulong(0x31), [None])))
        self.peer.until(lambda: declare.remote_state == 0x33, "a transaction")
        number = declare.remote.data[0]
        relay = self.peer.sender(None)
        posted = relay.link.delivery(f"posted-{self.number}")
        posted.local.data = [number]
        posted.update(0x34)
        relay.link.stream(encoded("posted", address=self.topic))
        relay.link.advance()
        self.peer.write()
        self.peer.until(lambda: posted.remote_state == 0x34, "an outcome")
        end = control.send(encoded(Described(ulong(0x32), [number, False])))
        return self.outcome(control, end)

    def answer(self) -> str:
        requests = self.peer.sender(NODE)
        said = {"operation": "READ", "type": "node", "name": "self"}
        asked = requests.send(encoded(None, properties=said, reply_to=self.topic))
        return self.outcome(requests, asked)

    def coordinate(self) -> str:
        return self.opened(self.peer.sender(None, kind=Terminus.COORDINATOR, opened=False))

    def make_queue(self) -> str:
        return self.opened(self.peer.sender(self.queue, opened=False))

    def make_queue_by_relay(self) -> str:
        relay = self.peer.sender(None)
        return self.outcome(relay, relay.send(encoded(1, address=self.queue)))

    def make_queue_by_browsing(self) -> str:
        options = {"capabilities": ("queue",), "copy": True, "opened": False}
        return self.opened(self.peer.receiver(self.queue, **options))

    def consume(self) -> str:
        return self.opened(self.peer.receiver(self.topic, opened=False))

    def consume_durable(self) -> str:
        self.durable()
        link = self.peer.shared_durable(self.topic, f"{self.name}|global", opened=False)
        return self.opened(link)

    def browse(self) -> str:
        self.place.operator.done("CREATE", "queue", f"tried-{self.number}")
        return self.make_queue_by_browsing()

    def browse_subscription(self) -> str:
        self.durable()
        return self.browse_nothing()

    def browse_nothing(self) -> str:
        address = f"subscription://{self.key}"
        return self.opened(self.peer.receiver(address, copy=True, opened=False))

    def make_durable(self) -> str:
        link = self.peer.shared_durable(self.topic, f"{self.name}|global", opened=False)
        return self.opened(link)

    def redefine(self) -> str:
        peer, name = self.place.root, f"{self.name}|global"
        peer.leave(peer.shared_durable(self.topic, name), closed=False)
        other = selector("colour = 'red'")
        return self.opened(self.peer.shared_durable(self.topic, name, filters=other, opened=False))

    def look_up(self) -> str:
        self.durable()
        return self.peer.unsubscribe(f"{self.name}|global")

    def look_up_nothing(self) -> str:
        return self.peer.unsubscribe(f"{self.name}|global")

    def end_durable(self) -> str:
        self.durable()
        link = self.peer.shared_durable(self.topic, f"{self.name}|global", opened=False)
        return self.opened(link) or self.peer.leave(link, closed=True)

    def make_temporary(self) -> str:
        return self.opened(self.peer.receiver(None, dynamic=True, capabilities=(), opened=False))

    def own_temporary(self) -> str:
        made = self.peer.receiver(None, dynamic=True, capabilities=(), opened=False)
        why = self.opened(made)
        if why:
            return why
        address = made.link.remote_source.address
        relay = self.peer.sender(None)
        return (
            self.opened(self.peer.sender(address, opened=False))
            or self.outcome(relay, relay.send(encoded("mine", address=address)))
            or self.opened(self.peer.receiver(address, capabilities=("queue",), opened=False))
        )

    def send_to_temporary(self) -> str:
        return self.opened(self.peer.sender(self.temporary(), opened=False))

    def send_to_temporary_by_relay(self) -> str:
        relay = self.peer.sender(None)
        return self.outcome(relay, relay.send(encoded(1, address=self.temporary())))

    def set_policy(self) -> str:
        return self.asked("CREATE", topic=self.topic, policy={"lock_ms": 1000})

    def set_dead_letters(self) -> str:
        self.place.operator.done("CREATE", "queue", f"grave-{self.number}")
        return self.set_new_dead_letters()

    def set_new_dead_letters(self) -> str:
        grave = {"dead_letter_address": f"queue://grave-{self.number}"}
        return self.asked("CREATE", topic=self.topic, policy=grave)

    def update_dead_letters(self) -> str:
        self.durable()
        self.place.operator.done("CREATE", "queue", f"grave-{self.number}")
        grave = {"dead_letter_address": f"queue://grave-{self.number}"}
        return self.asked("UPDATE", policy=grave)

    def asked(self, verb: str, **body: object) -> str:
        answer = self.place.manager(self.user).ask(verb, "subscription", self.key, **body)
        return {403: UNAUTHORIZED, 404: NOT_FOUND}.get(answer.status, "")


Way = tuple[LinkOperation, tuple[UserOperation, ...], Callable[[Try], str]]
#: Each operation of links: what it needs beside its own row, and how it is done.
WAYS: tuple[Way, ...] = (
    (L.SEND, (), Try.send),
    (L.RELAY, (), Try.relay),
    (L.SEND_BY_RELAY, (), Try.send_by_relay),
    (L.POST_BY_RELAY, (), Try.post_by_relay),
    (L.ANSWER, (), Try.answer),
    (L.COORDINATE, (), Try.coordinate),
    (L.MAKE_QUEUE, (L.SEND,), Try.make_queue),
    (L.MAKE_QUEUE, (L.SEND_BY_RELAY,), Try.make_queue_by_relay),
    (L.MAKE_QUEUE, (L.BROWSE,), Try.make_queue_by_browsing),
    (L.CONSUME, (), Try.consume),
    (L.CONSUME, (), Try.consume_durable),
    (L.CONSUME_PATTERN, (), Try.consume_pattern),
    (L.BROWSE, (), Try.browse),
    (L.BROWSE, (), Try.browse_subscription),
    (L.MAKE_DURABLE, (L.CONSUME,), Try.make_durable),
    (L.REDEFINE, (L.CONSUME,), Try.redefine),
    (L.LOOK_UP, (), Try.look_up),
    (L.END_DURABLE, (L.CONSUME,), Try.end_durable),
    (L.MAKE_TEMPORARY, (), Try.make_temporary),
    (L.SEND_TO_OWN_TEMPORARY, (L.MAKE_TEMPORARY,), Try.own_temporary),
    (L.CONSUME_OWN_TEMPORARY, (L.MAKE_TEMPORARY,), Try.own_temporary),
    (L.SEND_TO_TEMPORARY, (), Try.send_to_temporary),
    (L.SEND_TO_TEMPORARY, (), Try.send_to_temporary_by_relay),
    (L.SET_POLICY, (Verb.CREATE,), Try.set_policy),
    (L.SET_DEAD_LETTERS, (Verb.CREATE, L.SET_POLICY), Try.set_dead_letters),
    (L.SET_DEAD_LETTERS, (Verb.CREATE, L.SET_POLICY, L.MAKE_QUEUE), Try.set_new_dead_letters),
    (L.SET_DEAD_LETTERS, (Verb.UPDATE,), Try.update_dead_letters),
)
#: Those in which the name of a subscription is used.
NAMED = {
    *(
        Try.consume_durable,
        Try.browse_subscription,
        Try.make_durable,
        Try.redefine,
        Try.look_up,
        Try.end_durable,
    ),
    *(Try.set_policy, Try.set_dead_letters, Try.set_new_dead_letters, Try.update_dead_letters),
}

#: What a request of each kind says beside its name.
BODIES: dict[Verb, dict[str, object]] = {
    Verb.READ: {},
    Verb.QUERY: {},
    Verb.HELD: {},
    Verb.OWED: {},
    Verb.PAUSE: {},
    Verb.RESUME: {},
    Verb.PURGE: {},
    Verb.SKIP: {},
    Verb.REDRIVE: {},
    Verb.CLOSE: {},
    Verb.DELETE: {},
    Verb.GET_TYPES: {},
    Verb.GET_OPERATIONS: {},
    Verb.CREATE: {},
    Verb.UPDATE: {"policy": {"lock_ms": 1000}},
    Verb.REWIND: {"to": "now"},
    Verb.ACQUIRE: {"holder": "h", "keep": "", "max": 0},
    Verb.SETTLE: {"holder": "h", "sequences": ""},
    Verb.HINT: {"topic": "t", "selector": "a = 1", "start": 0, "stop": 0, "matches": b""},
}


def allowed(needed: Right, user: str, *, named: bool) -> bool:
    """Whether the row allows this user, whose rights are the same in all places tried."""
    actions, owns = USERS[user]
    for need in needed.needs:
        assert need.at in set(At)
        if Action.MANAGE in need.actions and Action.MANAGE in actions:
            continue
        if actions.isdisjoint(need.actions) or (named and not owns):
            return False
    return True


def test_each_operation_and_each_request_is_tried() -> None:
    assert {operation for operation, _, _ in WAYS} == set(LinkOperation)
    assert set(BODIES) | set(REQUESTS[Entity.TRANSACTION]) == set(Verb)
    assert {verb for verbs in REQUESTS.values() for verb in verbs} == set(Verb)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder: Path = tmp_path_factory.mktemp("rights")
    users, permissions = folder / "users.toml", folder / "permissions.toml"
    names = folder / "client_ids.toml"
    with changing(users) as known:
        for user in {*USERS, "root"} - {"anonymous"}:
            known[user] = user_of("x")
    lines = [line("root", frozenset(ALL), "*"), line("elsewhere", frozenset(ALL), "far-*")]
    for user, (actions, _) in USERS.items():
        if user != "elsewhere":
            lines.append(line(user, actions, "*"))
    permissions.write_text("\n".join(lines))
    theirs = [f'[{user}]\nsubscriptions = ["theirs-*"]' for user, (_, own) in USERS.items() if own]
    names.write_text("\n".join([*theirs, '[root]\nsubscriptions = ["*"]']))
    security = {"users": str(users), "permissions": str(permissions), "client_ids": str(names)}
    peers: dict[str, Peer] = {}
    with Gateway(folder / "gateway", {"security": security}) as gateway:

        def peer(user: str) -> Peer:
            if user not in peers:
                login = {} if user == "anonymous" else {"user": user, "password": "x"}
                peers[user] = Peer(gateway.port, f"container-{user}", **login)
            return peers[user]

        yield Place(gateway, peer, peer("root"), Manager(peer("root")), {})
        for one in peers.values():
            one.drop()


@pytest.mark.parametrize("user", USERS)
def test_links_and_messages_do_what_the_table_says(place: Place, user: str) -> None:
    wrong = []
    for operation, beside, way in WAYS:
        rows = [right(one) for one in (*beside, operation)]
        may = all(allowed(row, user, named=way in NAMED) for row in rows)
        said = way(Try(place, user))
        if (said == "") is not may or said not in {"", UNAUTHORIZED, NOT_FOUND}:
            wrong.append(f"{way.__name__}: {said or 'done'}")
    assert not wrong, wrong


SCHEMA = {"format": "json", "definition": "{}"}


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("entity", [one for one in Entity if one is not Entity.TRANSACTION])
def test_requests_do_what_the_table_says(place: Place, entity: Entity, user: str) -> None:
    """But for transactions, which are their users': `test_prepared.py` looks at those."""
    wrong = []
    for verb in REQUESTS[entity]:
        one = Try(place, user)
        may = allowed(right_of_request(entity, verb), user, named=entity is Entity.SUBSCRIPTION)
        name = prepared(one, entity, verb)
        said = dict(BODIES[verb])
        if (entity, verb) == (Entity.SUBSCRIPTION, Verb.CREATE):
            said["topic"] = one.topic
        if (entity, verb) == (Entity.SCHEMA, Verb.UPDATE):
            said = dict(SCHEMA)
        if (entity, verb) == (Entity.QUEUE, Verb.REDRIVE):
            place.operator.done("CREATE", "queue", f"tried-{one.number}-more")
        if verb is Verb.QUERY:
            done, text = shown(one, entity, name), "shown"
        else:
            answer = place.manager(user).ask(verb.value, entity.value, name, **said)
            done, text = answer.status not in (403, 404), f"{answer.status} {answer.text}"
        if done is not may:
            wrong.append(f"{verb} of a {entity}: {text}")
    assert not wrong, wrong


def prepared(one: Try, entity: Entity, verb: Verb) -> str:
    """Make what is asked about; its name."""
    match entity:
        case Entity.NODE:
            return "self"
        case Entity.TOPIC:
            one.place.root.sender(one.topic)
            return one.topic
        case Entity.SCHEMA:
            if verb is not Verb.UPDATE:
                one.place.operator.done("UPDATE", "schema", one.topic, **SCHEMA)
            return one.topic
        case Entity.QUEUE:
            if verb is not Verb.CREATE:
                one.place.operator.done("CREATE", "queue", f"tried-{one.number}")
            return f"tried-{one.number}"
        case Entity.SUBSCRIPTION:
            if verb is not Verb.CREATE:
                one.durable()
            return one.key


def shown(one: Try, entity: Entity, name: str) -> bool:
    """Whether a query shows it, in one of its parts."""
    asked, offset, total = {"attributeNames": ["name"]}, 0, 1
    while offset < total:
        part = one.place.manager(one.user).done("QUERY", entity.value, offset=offset, **asked)
        if [name] in part["results"]:
            return True
        offset, total = offset + 100, part["total"]
    return False


@pytest.mark.parametrize("user", USERS)
def test_of_what_one_may_not_see_nothing_is_said(place: Place, user: str) -> None:
    """The answer is that of a name which doesn't exist."""
    actions, owns = USERS[user]
    sees = Action.MANAGE in actions or (owns and actions & {Action.CONSUME, Action.CREATE})
    manager = place.manager(user)
    for verb in [
        one for one in REQUESTS[Entity.SUBSCRIPTION] if one not in (Verb.CREATE, Verb.QUERY)
    ]:
        there, nowhere = Try(place, user), Try(place, user)
        there.durable()
        some = manager.ask(verb.value, "subscription", there.key, **BODIES[verb])
        none = manager.ask(verb.value, "subscription", nowhere.key, **BODIES[verb])
        assert none.status == 404
        if not sees:
            assert (some.status, some.text.replace(there.key, "")) == (
                404,
                none.text.replace(nowhere.key, ""),
            )
    there, nowhere = Try(place, user), Try(place, user)
    assert (there.look_up() == nowhere.look_up_nothing()) is (not sees)
    there, nowhere = Try(place, user), Try(place, user)
    if not sees:
        assert there.browse_subscription() == nowhere.browse_nothing() == NOT_FOUND
    there = Try(place, user)
    there.durable()
    topic = manager.ask("READ", "topic", there.topic)
    if topic.status == 200:
        assert (there.key in topic.body["subscriptions"]) is (Action.MANAGE in actions or owns)


def test_a_query_that_shows_nothing_logs_nothing(place: Place) -> None:
    """It was a line for each thing that there is."""
    nobody = place.manager(name_of(()))
    Try(place, "root").durable()
    before = len(place.gateway.events("permission.refused"))
    for entity in (Entity.SUBSCRIPTION, Entity.QUEUE, Entity.TOPIC):
        assert nobody.done("QUERY", entity.value)["total"] == 0
    assert len(place.gateway.events("permission.refused")) == before
