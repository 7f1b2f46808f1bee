"""The Qpid JMS client's frames, field by field as it sends them, and the answers it waits for.

Only the order of frames is here: the test that uses a `Jms` says what is sent, and reads each
answer.
"""

import time
from collections.abc import Iterable

from gateway_codec import decode, encode
from gateway_fields import Fields, make
from gateway_frames import AMQP_HEADER, SASL_HEADER, Frame, Raw, frame_of, number
from proton import Described, byte, symbol, timestamp, ubyte, uint, ulong

OUTCOMES = [f"amqp:{name}:list" for name in ("accepted", "rejected", "released", "modified")]
DESIRED = ("sole-connection-for-container", "DELAYED_DELIVERY", "ANONYMOUS-RELAY", "SHARED-SUBS")
SELECTOR, NO_LOCAL = 0x0000468C00000004, 0x0000468C00000003
TOPIC, QUEUE = ("topic",), ("queue",)
SHARED, GLOBAL = ("topic", "shared"), ("topic", "shared", "global")
PREFETCH = 1_000
UUID = "ID:0f5f9d1c-5d3b-4b0e-8f6a-3c1f9f1f0001:1"


def selector(text: str) -> dict[object, object]:
    return {symbol("jms-selector"): Described(ulong(SELECTOR), text)}


def no_local() -> dict[object, object]:
    return {symbol("no-local"): Described(ulong(NO_LOCAL), "NoLocalFilter{}")}


def source(
    address: str,
    capabilities: Iterable[str] = TOPIC,
    *,
    durable: bool = False,
    browser: bool = False,
    filters: dict[object, object] | None = None,
) -> Described:
    """A consumer's source."""
    return make(
        "source",
        address=address,
        durable=2 if durable else 0,
        expiry_policy="never" if durable else "link-detach",
        distribution_mode="copy" if durable or browser else None,
        filter=filters,
        default_outcome=make("modified", delivery_failed=True),
        outcomes=OUTCOMES,
        capabilities=list(capabilities),
    )


def consumer(
    name: str,
    of: Described | None,
    *,
    handle: int = 0,
    channel: int = 0,
    presettled: bool = False,
    desired: tuple[str, ...] | None = None,
) -> bytes:
    """A consumer's attach; with no source the lookup of an unsubscribe."""
    return frame_of(
        "attach",
        channel=channel,
        name=name,
        handle=handle,
        role=True,
        snd_settle_mode=int(presettled),
        rcv_settle_mode=0,
        source=of,
        target=make("target"),
        desired_capabilities=desired,
    )


def lookup(name: str, **place: int) -> bytes:
    """The attach of an unsubscribe: what it wants is said when there is no client id."""
    desired = ("shared", "global") if name.endswith("|global") else None
    return consumer(name, None, desired=desired, **place)


def producer(
    address: str | None,
    capabilities: Iterable[str] = TOPIC,
    *,
    handle: int = 0,
    channel: int = 0,
    target: Described | None = None,
    name: str = "",
) -> bytes:
    """A producer's attach; without an address an anonymous one."""
    bare = make("target") if address is None else None
    named = make("target", address=address, capabilities=list(capabilities))
    return frame_of(
        "attach",
        channel=channel,
        name=name or f"qpid-jms:sender:{UUID}:1:{handle}:{address or 'null'}",
        handle=handle,
        role=False,
        snd_settle_mode=0,
        rcv_settle_mode=0,
        source=make(
            "source",
            address=f"{UUID}:1:{handle}",
            durable=0,
            expiry_policy="session-end",
            outcomes=OUTCOMES,
        ),
        target=target or bare or named,
        initial_delivery_count=0,
    )


def temporary(kind: str, *, handle: int = 0, channel: int = 0) -> bytes:
    """The attach that makes a temporary destination: `temporary-topic` or `temporary-queue`."""
    target = make(
        "target",
        durable=0,
        expiry_policy="link-detach",
        dynamic=True,
        dynamic_node_properties={symbol("lifetime-policy"): make("delete-on-close")},
        capabilities=[kind],
    )
    return frame_of(
        "attach",
        channel=channel,
        name=f"qpid-jms:{kind.replace('temporary', 'temp')}-creator:{UUID}:{handle}",
        handle=handle,
        role=False,
        snd_settle_mode=0,
        rcv_settle_mode=0,
        source=make("source"),
        target=target,
        initial_delivery_count=0,
    )


def coordinator(*, handle: int = 0, channel: int = 0) -> bytes:
    return frame_of(
        "attach",
        channel=channel,
        name=f"qpid-jms:coordinator:{UUID}:1",
        handle=handle,
        role=False,
        snd_settle_mode=0,
        rcv_settle_mode=0,
        source=make("source", outcomes=OUTCOMES),
        target=make("coordinator", capabilities=["amqp:local-transactions"]),
        initial_delivery_count=0,
    )


def text_message(
    body: object, to: str = "t", *, priority: int = 4, ttl: int = 0, number: int = 1
) -> bytes:
    """A persistent TextMessage to a topic, section by section; its id has that number."""
    annotations = {symbol("x-opt-jms-msg-type"): byte(5), symbol("x-opt-jms-dest"): byte(1)}
    now = timestamp(time.time() * 1_000)
    expiry = timestamp(now + ttl) if ttl else None
    properties = [f"{UUID}-{number}", None, to, *[None] * 5, expiry, now]
    header = [True, ubyte(priority) if priority != 4 else None, uint(ttl) if ttl else None]
    sections = ((0x70, header), (0x72, annotations), (0x73, properties), (0x77, body))
    return b"".join(encode(Described(ulong(code), value)) for code, value in sections)


def delivery(
    id_: int, payload: bytes, *, handle: int = 0, channel: int = 0, settled: bool = False
) -> bytes:
    return frame_of(
        "transfer",
        channel=channel,
        handle=handle,
        delivery_id=id_,
        delivery_tag=b"" if settled else id_.to_bytes(4, "big"),
        message_format=0,
        settled=settled,
        payload=payload,
    )


class Jms(Raw):
    """A connection of the Qpid JMS client, with its connection session on channel 0. `sole`: it
    desires its client id for itself, as the client does."""

    def __init__(
        self,
        port: int,
        client_id: str | None = None,
        *,
        opened: bool = True,
        sole: bool = True,
        host: str = "127.0.0.1",
        user: str = "",
    ) -> None:
        """`user` has the password x."""
        self._desired = DESIRED if sole else DESIRED[1:]
        super().__init__(port, hello=SASL_HEADER, host=host)
        self.name = client_id or f"{UUID}-{self.socket.getsockname()[1]}"
        self._arrived: dict[int, int] = {}
        self._mine: dict[int, int] = {}
        self._channels = 0
        try:
            self._log_in(user)
            if opened:
                [self.opened] = self.expect("open")
                self.session()
        except BaseException:
            self.socket.close()
            raise

    def _log_in(self, user: str) -> None:
        self.expect("sasl-mechanisms")
        mechanism, said = ("PLAIN", f"\0{user}\0x".encode()) if user else ("ANONYMOUS", b"")
        self.send(
            frame_of("sasl-init", mechanism=mechanism, initial_response=said, hostname="127.0.0.1")
        )
        self.expect("sasl-outcome")
        self.send(AMQP_HEADER, self.open_frame())

    def open_frame(self) -> bytes:
        return frame_of(
            "open",
            container_id=self.name,
            hostname="127.0.0.1",
            max_frame_size=1_048_576,
            channel_max=32_767,
            idle_time_out=30_000,
            desired_capabilities=self._desired,
            properties={symbol("product"): "QpidJMS", symbol("version"): "2.10.0"},
        )

    def session(self) -> int:
        """One more session; its channel."""
        channel, self._channels = self._channels, self._channels + 1
        self.send(
            frame_of(
                "begin",
                channel=channel,
                next_outgoing_id=1,
                incoming_window=2_047,
                outgoing_window=0x7FFFFFFF,
                handle_max=65_535,
            )
        )
        while (begin := self.read()).kind != "begin":
            assert begin.kind in ("flow", "disposition"), begin  # of other sessions
        assert begin["remote-channel"] == channel
        self._arrived[channel] = number(begin["next-outgoing-id"])
        self._mine[begin.channel] = channel
        return channel

    def read(self) -> Frame:
        one = super().read()
        if one.kind == "transfer" and not one["more"]:
            self._arrived[self._mine[one.channel]] += 1
        return one

    def credit(
        self,
        credit: int = PREFETCH,
        *,
        handle: int = 0,
        channel: int = 0,
        count: int = 0,
        drain: bool = False,
    ) -> None:
        """A consumer's flow. `count` is its delivery-count: how many it has had."""
        self.send(
            frame_of(
                "flow",
                channel=channel,
                next_incoming_id=self._arrived[channel],
                incoming_window=2_047,
                next_outgoing_id=1,
                outgoing_window=0x7FFFFFFF,
                handle=handle,
                delivery_count=count,
                link_credit=credit,
                drain=drain,
            )
        )

    def settle(
        self,
        first: Frame | int,
        last: Frame | int | None = None,
        state: Described | None = None,
        *,
        channel: int = 0,
        settled: bool = True,
    ) -> None:
        """A consumer's disposition of a range of deliveries, given by their transfers or ids."""
        ids = [
            number(one["delivery-id"]) if isinstance(one, Frame) else one for one in (first, last)
        ]
        self.send(
            frame_of(
                "disposition",
                channel=channel,
                role=True,
                first=ids[0],
                last=ids[1],
                settled=settled,
                state=state,
            )
        )

    def detach(self, *, closed: bool, handle: int = 0, channel: int = 0) -> None:
        self.send(frame_of("detach", channel=channel, handle=handle, closed=closed))

    def left(self, *, closed: bool, handle: int = 0, channel: int = 0) -> Frame:
        """Detach, and what the gateway answers. Before it the deliveries that the link still held
        may be settled."""
        self.detach(closed=closed, handle=handle, channel=channel)
        while (one := self.read()).kind == "disposition":
            assert (one["role"], one["settled"]) == (False, True)
        assert one.kind == "detach", one
        assert bool(one["closed"]) is closed or one.error
        return one

    def subscribed(self, name: str, of: Described, *, handle: int = 0, channel: int = 0) -> Frame:
        """Attach a consumer; the answer must be a yes."""
        self.send(consumer(name, of, handle=handle, channel=channel))
        [attach] = self.expect("attach")
        assert attach["source"] is not None, self.expect("detach")
        return attach

    def bodies(self, count: int, *, accept: bool = True, channel: int = 0) -> list[object]:
        """The bodies of the next deliveries, accepted one by one if nothing else is said."""
        transfers = self.expect(*["transfer"] * count)
        if accept:
            for one in transfers:
                self.settle(one, state=make("accepted"), channel=channel)
        return [text_of(one.payload) for one in transfers]

    def publish(
        self, address: str, *bodies: object, capabilities: Iterable[str] = TOPIC, **more: int
    ) -> None:
        """Send text messages over a producer of their own, and wait until all are accepted."""
        channel = self.session()
        self.send(producer(address, capabilities, channel=channel))
        self.expect("attach", "flow")
        for at, body in enumerate(bodies):
            self.send(delivery(1 + at, text_message(body, address, **more), channel=channel))
        accepted = 0
        while accepted < len(bodies):
            if (one := self.read()).kind == "flow":
                continue  # its credit comes back
            assert one.kind == "disposition", one
            first = number(one["first"])
            accepted += number(one["last"] or first) - first + 1
            state = one["state"]
            assert isinstance(state, Fields), one
            assert (one["settled"], state.kind) == (True, "accepted")
        self.send(frame_of("end", channel=channel))
        while self.read().kind != "end":
            pass

    def empty(self, *, handle: int = 0, channel: int = 0, count: int = 0) -> bool:
        """Whether a consumer gets nothing: a drain with credit for one is answered at once."""
        self.credit(1, handle=handle, channel=channel, count=count, drain=True)
        return self.read().kind == "flow"


def text_of(message: bytes) -> object:
    """The body of a text message."""
    return sections_of(message)[0x77]


def sections_of(message: bytes) -> dict[int, object]:
    """The sections of a message by their numbers; of several of a kind the last."""
    found, at = {}, 0
    while at < len(message):
        section, at = decode(message, at)
        code = section.descriptor
        found[0x77 if code == "amqp:amqp-value:*" else int(code)] = section.value
    return found
