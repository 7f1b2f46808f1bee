"""A transacted session of the Qpid JMS client, frame by frame."""

from collections import deque
from collections.abc import Iterable
from itertools import count

from gateway_codec import encode
from gateway_fields import Fields, make
from gateway_frames import Frame, frame_of, number
from gateway_jms import TOPIC, Jms, consumer, coordinator, producer, text_message, text_of
from proton import Described, ulong

#: The coordinator's handle on every transacted session; those of other links come after it.
COORDINATOR_HANDLE = 0
#: Of messages, so that topics which detect duplicates know none of them.
_numbers = count(1)
OK = make("accepted")


def value_of(described: Described) -> bytes:
    """A message with an amqp-value section alone, as commands are sent."""
    return encode(Described(ulong(0x77), described))


class Transacted:
    """A session with a coordinator's link. `id` is its open transaction's, once `declare` was
    answered."""

    def __init__(self, jms: Jms) -> None:
        self.jms = jms
        self.channel = jms.session()
        jms.send(coordinator(handle=COORDINATOR_HANDLE, channel=self.channel))
        while (attach := jms.read()).kind != "attach":
            assert attach.kind in ("flow", "disposition"), attach  # of other sessions
        [flow] = jms.expect("flow")
        assert attach["target"]["capabilities"] == ["amqp:local-transactions"]
        assert number(flow["link-credit"]) >= 2
        self.links = COORDINATOR_HANDLE
        self.deliveries = 0
        self.states: dict[int, Fields | None] = {}
        self.came: deque[Frame] = deque()
        self.id = b""

    # What the client sends.

    def transfer(
        self, handle: int, payload: bytes, *, state: Described | None = None, settled: bool = False
    ) -> int:
        """Send a message; its delivery-id."""
        self.deliveries += 1
        self.jms.send(
            frame_of(
                "transfer",
                channel=self.channel,
                handle=handle,
                delivery_id=self.deliveries,
                delivery_tag=b"" if settled else self.deliveries.to_bytes(4, "big"),
                message_format=0,
                settled=settled,
                state=state,
                payload=payload,
            )
        )
        return self.deliveries

    def send_declare(self) -> int:
        return self.transfer(COORDINATOR_HANDLE, value_of(make("declare")))

    def send_discharge(self, *, fail: bool, of: bytes | None = None) -> int:
        which = make("discharge", txn_id=self.id if of is None else of, fail=fail)
        return self.transfer(COORDINATOR_HANDLE, value_of(which))

    def producer(self, address: str | None, capabilities: Iterable[str] = TOPIC) -> int:
        """Attach a producer; its handle."""
        self.links += 1
        self.jms.send(producer(address, capabilities, handle=self.links, channel=self.channel))
        self.until("attach", "flow")
        return self.links

    def consumer(self, name: str, of: Described, credit: int) -> int:
        """Attach a consumer and give it credit; its handle."""
        self.links += 1
        self.jms.send(consumer(name, of, handle=self.links, channel=self.channel))
        self.until("attach")
        if credit:
            self.jms.credit(credit, handle=self.links, channel=self.channel)
        return self.links

    def post(self, handle: int, *bodies: object, of: bytes | None = None) -> list[int]:
        """Send messages in the transaction; their delivery-ids."""
        state = make("transactional-state", txn_id=self.id if of is None else of)
        messages = [text_message(body, number=next(_numbers)) for body in bodies]
        return [self.transfer(handle, one, state=state) for one in messages]

    def retire(
        self,
        first: Frame,
        last: Frame | None = None,
        outcome: Described | None = OK,
        *,
        settled: bool = True,
        of: bytes | None = None,
    ) -> None:
        """Give deliveries an outcome in the transaction."""
        state = make("transactional-state", txn_id=self.id if of is None else of, outcome=outcome)
        self.jms.settle(first, last, state, channel=self.channel, settled=settled)

    # What it waits for.

    def read(self) -> Frame:
        """The next frame; what it says of own deliveries is kept."""
        one = self.jms.read()
        if one.kind == "disposition" and one["role"]:
            first = number(one["first"])
            state = one["state"]
            assert one["settled"]
            assert state is None or isinstance(state, Fields)
            for id_ in range(first, number(one["last"] or first) + 1):
                self.states[id_] = state
        return one

    def until(self, *kinds: str) -> list[Frame]:
        """Frames of these kinds, in this order; what comes between is kept or no matter."""
        found: list[Frame] = []
        while len(found) < len(kinds):
            one = self.read()
            if one.kind == kinds[len(found)]:
                found.append(one)
            elif one.kind == "transfer":
                self.came.append(one)
            else:
                assert one.kind in ("flow", "disposition"), one
        return found

    def answer(self, id_: int) -> Fields:
        """The state that a delivery of ours got."""
        while id_ not in self.states:
            one = self.read()
            if one.kind == "transfer":
                self.came.append(one)
            else:
                assert one.kind in ("flow", "disposition"), one
        state = self.states.pop(id_)
        assert state is not None
        return state

    def transfers(self, count: int) -> list[Frame]:
        """The next deliveries to this session's consumers."""
        found = [self.came.popleft() for _ in range(min(count, len(self.came)))]
        return found + self.until(*["transfer"] * (count - len(found)))

    def bodies(self, count: int) -> list[object]:
        return [text_of(one.payload) for one in self.transfers(count)]

    # Both.

    def declare(self) -> bytes:
        """Begin a transaction; its id."""
        state = self.answer(self.send_declare())
        assert state.kind == "declared", state
        identifier = state["txn-id"]
        assert isinstance(identifier, bytes)
        self.id = identifier
        return identifier

    def discharge(self, *, fail: bool = False) -> str:
        """Commit or roll back as JMS clients do, with the next declare right behind it: the
        condition with which it was rejected, or nothing. The new transaction is open then."""
        discharge, declare = self.send_discharge(fail=fail), self.send_declare()
        state, declared = self.answer(discharge), self.answer(declare)
        assert declared.kind == "declared", declared
        identifier = declared["txn-id"]
        assert isinstance(identifier, bytes)
        self.id = identifier
        return condition_of(state)

    def commit(self) -> str:
        return self.discharge()

    def roll_back(self) -> str:
        return self.discharge(fail=True)


def condition_of(state: Fields) -> str:
    """Why a command, or a message in a transaction, was rejected; nothing if it wasn't."""
    if state.kind == "transactional-state":
        outcome = state["outcome"]
        assert isinstance(outcome, Fields)
        state = outcome
    if state.kind == "accepted":
        return ""
    assert state.kind == "rejected", state
    error = state["error"]
    return str(error["condition"]) if isinstance(error, Fields) else "no error"


def transacted(jms: Jms) -> Transacted:
    """A session as `createSession(true, ...)` makes it: with its first transaction."""
    session = Transacted(jms)
    session.declare()
    return session
