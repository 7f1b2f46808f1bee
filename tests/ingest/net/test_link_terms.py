"""Terms in the answer to an attach hold: default outcomes, settle modes, capabilities."""

from collections.abc import Callable, Iterator

import pytest
from gateway_codec import Encoded
from gateway_fields import Fields, composite, make
from gateway_frames import ATTACH, CLOSE, DETACH, DISPOSITION, TRANSFER, Frame, Raw, begun, frame_of
from gateway_links import decoded, encoded
from gateway_peer import Connect, Peer
from gateway_process import Gateway
from proton import Described, symbol

NewRaw = Callable[..., Raw]

ALL = ["amqp:accepted:list", "amqp:rejected:list", "amqp:released:list", "amqp:modified:list"]
ACCEPTED = composite(0x24)


@pytest.fixture
def raw(request: pytest.FixtureRequest, topic: str) -> Iterator[NewRaw]:
    """Makes raw connections to the session's gateway, each with one session."""
    made: list[Raw] = []

    def new(name: str = "raw") -> Raw:
        port = request.getfixturevalue("gateway").port
        made.append(begun(port, f"{topic}-{name}"))
        made[-1].expect("open", "begin")
        return made[-1]

    yield new
    for one in made:
        one.socket.close()


def source(topic: str, **given: object) -> Described:
    """The source that a durable subscriber asks for."""
    fields = {"address": topic, "durable": 2, "expiry_policy": "never", "capabilities": ["topic"]}
    return make("source", **{**fields, **given})


def consume(one: Raw, from_: Described | None, name: str = "N", **given: object) -> Frame:
    """Attach a consumer with credit; the gateway's attach."""
    termini = {"source": from_, "target": make("target")}
    one.send(frame_of("attach", name=name, handle=0, role=True, **termini, **given), credit(100))
    return one.next(ATTACH)


def credit(number: int) -> bytes:
    window = {"incoming_window": 1 << 20, "next_outgoing_id": 0, "outgoing_window": 1 << 20}
    return frame_of("flow", **window, handle=0, delivery_count=0, link_credit=number)


def settle(first: int, state: object = None, *, settled: bool = True, **given: object) -> bytes:
    return frame_of("disposition", role=True, first=first, settled=settled, state=state, **given)


def counts(one: Raw, number: int) -> list[int]:
    """The delivery counts of the next messages."""
    return [decoded(one.next(TRANSFER).payload).delivery_count for _ in range(number)]


def leave(one: Raw) -> None:
    one.send(frame_of("detach", handle=0, closed=False))
    one.next(DETACH)


def error_of(frame: Frame) -> str:
    assert isinstance(frame["error"], Fields), frame
    return str(frame["error"]["condition"])


#: What a source asks for; the fields of what it is told; the delivery count with which a message
#: comes again that was settled without a state, None if it doesn't come again.
FAILED = (0x27, [True, False])
DEFAULT_OUTCOMES = {
    "none": (None, FAILED, 1),
    "modified": (composite(0x27), (0x27, [False, False]), 0),
    "modified, failed": (composite(0x27, True), FAILED, 1),
    "modified, undeliverable": (composite(0x27, True, True), (0x27, [True, True]), None),
    "released": (composite(0x26), (0x26, []), 0),
    "accepted": (ACCEPTED, (0x24, []), None),
    "rejected": (composite(0x25), (0x25, []), None),
    "by its name": (Described(symbol("amqp:accepted:list"), []), (0x24, []), None),
    "no outcome": (composite(0x34, b"id"), FAILED, 1),
}


@pytest.mark.parametrize("kind", DEFAULT_OUTCOMES)
def test_a_delivery_settled_without_a_state_has_the_default_outcome(
    raw: NewRaw, connect: Connect, topic: str, kind: str
) -> None:
    """The link's own, as its source is told; `modified`, failed, where it asked for none that can
    be."""
    asked, (code, fields), count = DEFAULT_OUTCOMES[kind]
    one = raw()
    told = consume(one, source(topic, default_outcome=asked))["source"]["default-outcome"]
    assert (told.code, told.values) == (code, fields)
    connect().sender(topic).publish("first", "second")
    assert counts(one, 2) == [0, 0]
    one.send(settle(0), settle(1, ACCEPTED))
    if count is not None:
        assert counts(one, 1) == [count]
    leave(one)
    consume(one, source(topic))
    connect().sender(topic).publish("last")
    bodies = [decoded(one.next(TRANSFER).payload).body for _ in range(1 + (count is not None))]
    assert bodies == ["first", "last"][count is None :]


def test_received_is_no_outcome(raw: NewRaw, connect: Connect, topic: str) -> None:
    """A delivery that is settled as only `received` has its default outcome."""
    one = raw()
    consume(one, source(topic, default_outcome=ACCEPTED))
    connect().sender(topic).publish("first")
    assert counts(one, 1) == [0]
    one.send(settle(0, composite(0x23, None, None)))
    leave(one)
    consume(one, source(topic))
    assert [frame.kind for frame in one.heard()] == []


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (None, ALL),
        (ALL, ALL),
        (["amqp:accepted:list", "amqp:rejected:list"], ALL[:2]),
        (["amqp:modified:list", "x:y:list", "amqp:accepted:list"], [ALL[0], ALL[3]]),
        (["x:y:list"], ALL),
    ],
)
def test_a_source_is_told_which_outcomes_count(
    raw: NewRaw, topic: str, asked: list[str] | None, told: list[str]
) -> None:
    """The outcomes that it asked for and that exist; all four if it asked for none of them."""
    answer = consume(raw(), source(topic, outcomes=asked))
    assert answer["source"]["outcomes"] == told


@pytest.mark.parametrize("capabilities", [["topic"], ["topic", "shared"], None])
def test_a_topics_consumer_is_offered_shared_subscriptions(
    raw: NewRaw, topic: str, capabilities: list[str] | None
) -> None:
    """On its link, whether it desires them or not."""
    answer = consume(raw(), source(topic, capabilities=capabilities), name="S")
    assert answer["offered-capabilities"] == ["SHARED-SUBS"]
    assert answer["properties"] is None


def test_a_queues_consumer_is_offered_nothing_a_producer_a_delay(raw: NewRaw, topic: str) -> None:
    """A queue is shared anyway; a producer may rely on delays, whether it desires them or not."""
    answer = consume(raw(), make("source", address=topic, capabilities=["queue"]))
    assert (answer["offered-capabilities"], answer["properties"]) == (None, None)
    one = raw("producer")
    termini = {"source": make("source"), "target": make("target", address=topic)}
    for handle, desired in enumerate((["DELAYED_DELIVERY"], None)):
        said = {**termini, "desired_capabilities": desired}
        one.send(frame_of("attach", name=f"P{handle}", handle=handle, role=False, **said))
        assert one.next(ATTACH)["offered-capabilities"] == ["DELAYED_DELIVERY"]


@pytest.mark.parametrize("place", ["", "queue://"])
def test_what_is_desired_and_not_served_is_not_offered(raw: NewRaw, topic: str, place: str) -> None:
    """A producer that wants the outcomes of consumers reads that it doesn't get them: `accepted`
    means stored, also without a consumer."""
    one = raw("producer")
    termini = {"source": make("source"), "target": make("target", address=place + topic)}
    said = {**termini, "desired_capabilities": ["hand-over"], "initial_delivery_count": 0}
    one.send(frame_of("attach", name="P", handle=0, role=False, **said))
    assert one.next(ATTACH)["offered-capabilities"] == ["DELAYED_DELIVERY"]
    assert sent(one, 0, 1) == "accepted"


def sent(one: Raw, handle: int, number: int, *, durable: bool = True) -> object:
    """Send a message; the state that it gets."""
    place = {"handle": handle, "delivery_id": number, "delivery_tag": bytes([number])}
    payload = encoded(f"message {number}", durable=durable)
    one.send(frame_of("transfer", **place, message_format=0, payload=payload))
    answer = one.next(DISPOSITION)
    assert (answer["first"], answer["settled"]) == (number, True)
    return answer["state"].kind


def test_a_producer_gets_back_what_nobody_is_subscribed_to(
    own_gateway: Callable[..., Gateway], connect: Connect, topic: str
) -> None:
    """A producer that desires it on a topic is offered it, and told by the outcome. A queue stores,
    and messages accepted on receipt stay accepted. It has a gateway of its own, as other tests may
    have set a schema or limited a backlog at the common one."""
    with own_gateway() as gateway, begun(gateway.port, "producer") as one:
        one.expect("open", "begin")
        gets_back(one, connect(port=gateway.port), topic)


def gets_back(one: Raw, peer: Peer, topic: str) -> None:
    attaches = [
        (topic, ["RELEASE-UNDELIVERABLE"], ["DELAYED_DELIVERY", "RELEASE-UNDELIVERABLE"]),
        (topic, None, ["DELAYED_DELIVERY"]),
        (f"queue://{topic}", ["RELEASE-UNDELIVERABLE"], ["DELAYED_DELIVERY"]),
    ]
    for handle, (address, desired, offered) in enumerate(attaches):
        termini = {"source": make("source"), "target": make("target", address=address)}
        said = {**termini, "desired_capabilities": desired, "initial_delivery_count": 0}
        one.send(frame_of("attach", name=f"P{handle}", handle=handle, role=False, **said))
        assert one.next(ATTACH)["offered-capabilities"] == offered
    assert sent(one, 0, 1) == "released"
    assert sent(one, 0, 2, durable=False) == "accepted"
    assert sent(one, 1, 3) == "accepted"
    assert sent(one, 2, 4) == "accepted"
    link = peer.receiver(topic)
    link.link.flow(9)
    peer.write()
    assert sent(one, 0, 5) == "accepted"
    assert link.bodies() == ["message 5"]
    peer.leave(link, closed=True)
    assert sent(one, 0, 6) == "released"


def test_a_producer_gets_back_nothing_that_is_routed(
    own_gateway: Callable[..., Gateway], connect: Connect, topic: str
) -> None:
    """Its copy goes on, also where the topic itself has no subscription."""
    settings = {"topic": {"routes": f"queue://{topic}"}}
    with own_gateway(settings) as gateway, begun(gateway.port, "producer") as one:
        one.expect("open", "begin")
        termini = {"source": make("source"), "target": make("target", address=topic)}
        said = {**termini, "desired_capabilities": ["RELEASE-UNDELIVERABLE"]}
        attach = frame_of(
            "attach", name="P", handle=0, role=False, initial_delivery_count=0, **said
        )
        one.send(attach)
        assert one.next(ATTACH)["offered-capabilities"]
        assert sent(one, 0, 1) == "accepted"
        copies = connect(port=gateway.port).receiver(topic, capabilities=("queue",))
        assert copies.bodies() == ["message 1"]


def test_a_refused_link_is_offered_nothing(raw: NewRaw) -> None:
    """Its source is null, and it ends."""
    one = raw()
    answer = consume(one, source("$none"))
    assert (answer["source"], answer["offered-capabilities"]) == (None, None)
    assert error_of(one.next(DETACH)) == "amqp:not-found"


@pytest.mark.parametrize(
    ("name", "made", "desired", "found"),
    [
        ("N", ["topic"], [], True),
        ("N", ["topic", "shared"], [], True),
        ("N", ["topic", "shared"], ["shared"], True),
        ("N|2", ["topic", "shared"], ["shared"], True),
        ("N|2", ["topic", "shared"], [], False),
        ("N", ["topic", "shared", "global"], ["shared", "global"], True),
        ("N|global", ["topic", "shared", "global"], ["shared", "global"], True),
        ("N|global", ["topic", "shared", "global"], [], True),
        ("N|7", ["topic", "shared", "global"], ["shared", "global"], True),
        ("N", ["topic", "shared", "global"], ["shared"], False),
        ("N", ["topic", "shared"], ["shared", "global"], False),
        ("N", ["topic", "global"], ["global"], True),
        ("N", ["topic"], ["global"], False),
    ],
)
def test_a_lookup_means_what_it_desires(
    raw: NewRaw, topic: str, name: str, made: list[str], desired: list[str], *, found: bool
) -> None:
    """Shared: the name is cut at `|`. Global: the container doesn't matter."""
    one, own = raw(), f"{topic}-{name}"
    consume(one, source(topic, capabilities=made), name=f"{topic}-N")
    leave(one)
    answer = consume(one, None, name=own, desired_capabilities=desired or None)
    assert (answer["source"] is not None) is found
    if found:
        assert answer["source"]["address"] == topic
        assert answer["offered-capabilities"] == ["SHARED-SUBS"]
        one.send(frame_of("detach", handle=0, closed=True))
        assert one.next(DETACH)["error"] is None
    else:
        assert error_of(one.next(DETACH)) == "amqp:not-found"


@pytest.mark.parametrize("mode", [0, 1, 2])
@pytest.mark.parametrize("other", [0, 1])
def test_a_consumers_settle_modes_are_answered(
    raw: NewRaw, connect: Connect, topic: str, mode: int, other: int
) -> None:
    """Its messages come settled if it asked for that, else unsettled; the receiver settles first,
    whatever it would like."""
    one = raw()
    answer = consume(one, source(topic), snd_settle_mode=mode, rcv_settle_mode=other)
    assert (answer["snd-settle-mode"], answer["rcv-settle-mode"]) == (mode, 0)
    connect().sender(topic).publish("x")
    assert bool(one.next(TRANSFER)["settled"]) is (mode == 1)


@pytest.mark.parametrize("settles", ["late", "never"])
def test_whoever_settles_second_has_its_answer(
    raw: NewRaw, connect: Connect, topic: str, settles: str
) -> None:
    """Its unsettled outcome is answered when it is durable; whether it then settles, too, makes no
    difference: the message is gone, once."""
    one = raw()
    consume(one, source(topic), rcv_settle_mode=1)
    connect().sender(topic).publish("first", "second")
    assert counts(one, 2) == [0, 0]
    one.send(settle(0, ACCEPTED, settled=False))
    answer = one.next(DISPOSITION)
    assert (answer["first"], answer["settled"], answer["state"].code) == (0, True, 0x24)
    if settles == "late":
        one.send(settle(0, ACCEPTED))
    leave(one)
    consume(one, source(topic))
    assert decoded(one.next(TRANSFER).payload).body == "second"


@pytest.mark.parametrize("mode", [0, 1, 2])
@pytest.mark.parametrize("settled", [False, True])
def test_a_producers_settle_modes_are_answered(
    raw: NewRaw, connect: Connect, topic: str, mode: int, settled: bool
) -> None:
    """Its mode is its own; what it sends settled isn't answered, what it doesn't is, and settled at
    once, whatever it would like."""
    receiver = connect().receiver(topic)
    one = raw()
    termini = {"source": make("source"), "target": make("target", address=topic)}
    modes = {"snd_settle_mode": mode, "rcv_settle_mode": 1}
    one.send(frame_of("attach", name="P", handle=0, role=False, **termini, **modes))
    answer = one.next(ATTACH)
    assert (answer["snd-settle-mode"], answer["rcv-settle-mode"]) == (mode, 0)
    message = b"\x00\x53\x70\xc0\x02\x01\x41\x00\x53\x77\xa1\x01x"
    transfer = {"handle": 0, "delivery_id": 0, "delivery_tag": b"t", "settled": settled}
    one.send(frame_of("transfer", **transfer, payload=message))
    assert receiver.bodies() == ["x"]
    said = [frame for frame in one.heard() if frame.kind == "disposition"]
    if settled:
        assert said == []
    else:
        [outcome] = said
        assert (outcome["settled"], outcome["state"].code) == (True, 0x24)


STATES = {
    "accepted": ("amqp:accepted:list", [], None),
    "rejected": ("amqp:rejected:list", [], None),
    "released": ("amqp:released:list", [], 0),
    "modified": ("amqp:modified:list", [True], 1),
    "undeliverable": ("amqp:modified:list", [True, True], None),
}


@pytest.mark.parametrize("kind", STATES)
def test_a_state_may_be_given_by_its_name(
    raw: NewRaw, connect: Connect, topic: str, kind: str
) -> None:
    """It means what its number means."""
    name, fields, count = STATES[kind]
    one = raw()
    consume(one, source(topic))
    connect().sender(topic).publish("first")
    assert counts(one, 1) == [0]
    one.send(settle(0, Described(symbol(name), fields)))
    if count is not None:
        assert counts(one, 1) == [count]
    else:
        leave(one)
        consume(one, source(topic))
        assert one.heard() == []


@pytest.mark.parametrize(
    ("state", "condition"),
    [
        (Described(symbol("x:y:list"), []), "amqp:not-implemented"),
        (composite(0x34, b"id", composite(0x33)), "amqp:decode-error"),
        (7, "amqp:decode-error"),
    ],
    ids=["unknown", "no outcome", "no state"],
)
@pytest.mark.usefixtures("unharmed")
def test_a_state_that_nobody_knows_ends_the_connection(
    raw: NewRaw, connect: Connect, topic: str, state: object, condition: str
) -> None:
    """It is taken for nothing else: what the consumer held is held for it as before."""
    one = raw()
    consume(one, source(topic, default_outcome=ACCEPTED))
    connect().sender(topic).publish("first")
    assert counts(one, 1) == [0]
    one.send(settle(0, state))
    assert error_of(one.next(CLOSE)) == condition
    one.rest()
    one.socket.close()
    again = raw()
    consume(again, source(topic))
    assert decoded(again.next(TRANSFER).payload).body == "first"


@pytest.mark.parametrize(
    "fields",
    [
        {"desired_capabilities": 7},
        {"source": make("source", default_outcome=composite(0x27, Encoded(b"\xc0\x09\x01")))},
        {"source": Encoded(b"\x00\x53\x28" + b"\x00" * 90)},
        {"name": None},
    ],
    ids=["capabilities", "default outcome", "source", "name"],
)
@pytest.mark.usefixtures("unharmed")
def test_an_attach_that_can_not_be_read_ends_the_connection(
    raw: NewRaw, topic: str, fields: dict[str, object]
) -> None:
    """It ends with a sentence, and no other connection ends."""
    one = raw()
    good = {"name": "N", "role": True, "source": source(topic), "target": make("target")}
    one.send(
        frame_of("attach", handle=0, **good),
        frame_of("attach", handle=1, **{**good, "name": "M", **fields}),
        frame_of("attach", handle=2, **{**good, "name": "O"}),
    )
    said = one.until_end()
    assert error_of(said[-1]) == "amqp:decode-error"
    assert said[-1].says


@pytest.mark.parametrize(
    ("fields", "condition"),
    [
        ({"message_format": 0x80013700}, "amqp:not-implemented"),
        ({"message_format": 1, "settled": True}, "amqp:not-implemented"),
        ({"state": composite(0x34, b"id")}, "amqp:transaction:unknown-id"),
    ],
    ids=["format", "format, settled", "transaction"],
)
@pytest.mark.usefixtures("unharmed")
def test_a_message_of_another_kind_ends_its_link(
    raw: NewRaw, connect: Connect, topic: str, fields: dict[str, object], condition: str
) -> None:
    """It is taken for nothing else; what came before it counts, other links go on."""
    receiver = connect().receiver(topic)
    one = raw()
    for handle in (0, 1):
        termini = {"source": make("source"), "target": make("target", address=topic)}
        one.send(frame_of("attach", name=f"P{handle}", handle=handle, role=False, **termini))
        one.next(ATTACH)
    message = b"\x00\x53\x70\xc0\x02\x01\x41\x00\x53\x77\xa1\x01"

    def transfer(number: int, handle: int, **given: object) -> bytes:
        common = {"handle": handle, "delivery_id": number, "delivery_tag": b"%d" % number}
        return frame_of("transfer", **common, **given, payload=message + b"%d" % number)

    one.send(transfer(0, 0), transfer(1, 0, **fields), transfer(2, 0), transfer(3, 1))
    detach = one.next(DETACH)
    assert (error_of(detach), detach["closed"]) == (condition, True)
    assert "P0" in detach.says
    assert receiver.bodies(2) == ["0", "3"]


def test_an_echo_is_answered(raw: NewRaw, topic: str) -> None:
    """With the link's state on a producer's link, and the session's in any case."""
    one = raw()
    termini = {"source": make("source"), "target": make("target", address=topic)}
    one.send(frame_of("attach", name="P", handle=0, role=False, **termini))
    granted = one.next(0x13)
    window = {"incoming_window": 100, "next_outgoing_id": 0, "outgoing_window": 100}
    one.send(frame_of("flow", **window, handle=0, delivery_count=0, link_credit=0, echo=True))
    [answer] = one.heard()
    assert (answer["handle"], answer["link-credit"]) == (0, granted["link-credit"])
    one.send(frame_of("flow", **window, echo=True))
    [answer] = one.heard()
    assert (answer.kind, answer["incoming-window"]) == ("flow", granted["incoming-window"])
    one.send(frame_of("flow", **window))
    assert one.heard() == []
    other = raw("consumer")
    consume(other, source(topic))
    other.send(frame_of("flow", **window, handle=0, delivery_count=0, link_credit=5, echo=True))
    [answer] = other.heard()
    assert answer.kind == "flow"


EXPIRIES = ["link-detach", "session-end", "connection-close", "never", None]


@pytest.mark.parametrize("expiry", EXPIRIES)
@pytest.mark.parametrize("durable", [0, 1, 2])
@pytest.mark.parametrize("shared", [False, True])
def test_a_source_is_told_how_long_it_lives(
    raw: NewRaw, topic: str, durable: int, expiry: str | None, shared: bool
) -> None:
    """A durable subscription lives as it asked, for ever if it said nothing; any other one as long
    as it has a link. So no client relies on an end that doesn't come."""
    one = raw()
    asked = {"durable": durable, "expiry_policy": expiry, "timeout": 30}
    words = ["topic"] + ["shared"] * shared
    said = consume(one, source(topic, **asked, capabilities=words))["source"]
    assert isinstance(said, Fields)
    keeps = durable > 0 or expiry == "never"
    holds = (expiry or "never") if keeps else "link-detach"
    # What is AMQP's default may be left out.
    assert (said["expiry-policy"] or "session-end") == holds
    assert said["durable"] == ((durable or 1) if keeps else 0)
    assert (said["timeout"] or 0) == (30 if keeps and holds != "never" else 0)
    leave(one)
    one.send(frame_of("attach", name="N", handle=0, role=True, source=None, target=make("target")))
    found = one.next(ATTACH)["source"]
    assert (found is not None) is keeps


@pytest.mark.parametrize("durable", [0, 2])
def test_what_a_queue_is_asked_is_answered(raw: NewRaw, topic: str, durable: int) -> None:
    """It lives until an operator deletes it: nothing depends on its links' lifetimes."""
    asked = {"durable": durable, "expiry_policy": "link-detach", "capabilities": ["queue"]}
    said = consume(raw(), source(topic, **asked))["source"]
    assert isinstance(said, Fields)
    assert (said["durable"], said["expiry-policy"]) == (durable, "link-detach")
