"""The guard before the engine: C and the tables say the same of every conversation."""

import random

from endpoint_model import SERIAL, Endpoints, Sent
from gateway_fields import composite
from gateway_frames import frame_of
from hypothesis import given
from hypothesis import strategies as st
from proton import uint

from distributary.ingest.native.guard import Guard
from distributary.ingest.native.pump_library import ffi, lib
from distributary.pipeline.amqp.endpoint_states import HANDLE_MAX, VIOLATIONS, Violation

CHANNELS_MAX, LINKS_MAX, FRAME_BYTES_MAX = 3, 4, 4_096
WINDOW = {"incoming_window": 9, "next_outgoing_id": 0, "outgoing_window": 9}
#: What is wrong with a frame's bytes, whatever the states.
OF_BYTES = {
    *(Violation.FRAME_SIZE, Violation.FRAME_HEAD, Violation.FRAME_TYPE),
    *(Violation.UNKNOWN, Violation.FIELDS),
}
#: Fields that the encoding of a performative must have.
ALWAYS: dict[str, dict[str, object]] = {
    "open": {"container_id": "c"},
    "begin": WINDOW,
    "flow": WINDOW,
}


class Guarded:
    """The guard in C, as a connection has it."""

    def __init__(self) -> None:
        self.guard = Guard(CHANNELS_MAX, LINKS_MAX)
        limits = {"values_max": 1_000, "depth_max": 8}
        self.walk = ffi.new("pump_walk *", {"guard": self.guard.states, "limits": limits})

    def admit(self, frame: Sent) -> Violation | None:
        channel, name, fields = frame
        payload = b"payload" if name == "transfer" else b""
        data = frame_of(name, channel=channel, payload=payload, **ALWAYS.get(name, {}), **fields)
        while (stop := self.walked(data)) == lib.WALK_ROOM:
            self.guard.grow()
        if stop == lib.WALK_VIOLATION:
            condition, sentence = self.guard.violation()
            violation = VIOLATIONS[self.guard.states.violation]
            assert condition == violation.value.condition
            assert "{" not in sentence
            return violation
        self.walk.left = 0
        return None

    def walked(self, data: bytes) -> int:
        return int(
            lib.pump_walk_on(
                self.walk, ffi.from_buffer(data), len(data), FRAME_BYTES_MAX, lib.WALK_IN
            )
        )

    @property
    def links(self) -> dict[tuple[int, int], int]:
        """The links that it knows of, and their states."""
        states = self.guard.states
        found = {}
        for i in range(states.room):
            one = states.endpoints[i]
            if one.state and one.key & 0xFFFFFFFF != 0xFFFFFFFF:
                found[one.key >> 32, one.key & 0xFFFFFFFF] = one.state
        return found


class Choices:
    """Choices made by one number: its digits, as it were."""

    def __init__(self, number: int) -> None:
        self._rest = number

    def of(self, *options: object) -> object:
        self._rest, at = divmod(self._rest, len(options))
        return options[at]


OFTEN = (*("transfer",) * 12, *("attach",) * 6, *("begin",) * 3, "detach", "detach", "flow", "flow")
CHANNELS = (0, 0, 0, 1, 1, 2, 3, 0xFFFF)
HANDLES = (0, 0, 0, 1, 1, 2, 3, HANDLE_MAX, HANDLE_MAX + 1, 0xFFFFFFFF)
NUMBERS = (0, 1, 2, 3, 1 << 31, (1 << 31) - 1, (1 << 32) - 1)


def frame_by(number: int, model: Endpoints) -> Sent:
    """A frame; with a delivery-id that is most often the one which comes next."""
    pick = Choices(number).of
    name = pick(*OFTEN, "disposition", "disposition", "end", "open")
    channel, handle = pick(*CHANNELS), pick(*HANDLES)
    session = model.sessions.get(channel)
    link = session.links.get(handle) if session else None
    following = (session.next_id if session else 0) or 0
    fields: dict[str, object] = {}
    match name:
        case "open":
            fields = {"channel_max": pick(None, 0, 1, 9)}
        case "begin":
            fields = {"remote_channel": pick(*[None] * 9, 0, 1), "handle_max": pick(None, 7)}
        case "attach":
            named = pick("a", "b", "c", "d", "e", "é" * 99)
            fields = {"name": named, "handle": handle, "role": pick(False, True)}
        case "flow":
            fields = {"handle": pick(None, handle), "echo": pick(None, True)}
        case "transfer":
            here = link.delivery if link else 0
            fields = {
                "handle": handle,
                "more": pick(None, False, True),
                "delivery_id": pick(*[following] * 6, here, here, None, *NUMBERS),
                "delivery_tag": pick(*[b"t"] * 4, None, b"", b"x" * 32),
                "message_format": pick(None, 0, uint(0)),
                "settled": pick(None, False, True),
                "resume": pick(None, None, False),
                "aborted": pick(None, None, None, None, False, True),
            }
        case "disposition":
            near = (following, following - 1, following + 1)
            ids = [one % SERIAL for one in (*near, *NUMBERS)]
            fields = {"role": pick(False, True), "first": pick(*ids), "last": pick(None, *ids)}
            fields["settled"] = pick(None, True)
            fields["state"] = pick(None, *[composite(0x24)] * 3, composite(0x27, True))
        case "detach":
            fields = {"handle": handle, "closed": pick(None, False, True)}
    return channel, name, {key: value for key, value in fields.items() if value is not None}


#: Every conversation begins so, or with nothing.
BEGINNING: list[Sent] = [(0, "open", {}), (0, "begin", {}), (1, "begin", {})]


def agree(begun: bool, numbers: list[int]) -> set[Violation | None]:
    """Have both judge every frame of a conversation; what they said. What may not come changes
    nothing, so that the conversation goes on."""
    guarded, model = Guarded(), Endpoints(CHANNELS_MAX, LINKS_MAX)
    said: set[Violation | None] = set()
    for frame in BEGINNING * begun:
        assert guarded.admit(frame) is model.admit(frame) is None
    for number in numbers:
        frame = frame_by(number, model)
        violation = model.admit(frame)
        assert guarded.admit(frame) is violation, frame
        said.add(violation)
        assert guarded.links == {
            (channel, handle): link.state
            for channel, session in model.sessions.items()
            for handle, link in session.links.items()
        }
        assert guarded.guard.states.links == len(guarded.links)
        assert guarded.guard.states.used == len(guarded.links) + len(model.sessions)
    return said


@given(st.booleans(), st.lists(st.integers(0, 1 << 64), max_size=100))
def test_c_and_the_tables_agree(begun: bool, numbers: list[int]) -> None:
    """Of every frame: whether it may come, or what is wrong."""
    agree(begun, numbers)


def test_they_agree_on_long_conversations() -> None:
    """In which everything happens that can be wrong with a frame's state or its fields' values."""
    said: set[Violation | None] = set()
    for seed in range(40):
        dice = random.Random(seed)
        said |= agree(seed % 10 > 0, [dice.getrandbits(64) for _ in range(300)])
    assert said >= {None, *Violation} - OF_BYTES


def test_behind_a_close_nothing_is_looked_at() -> None:
    """Any bytes behind a close stop the walk."""
    guarded = Guarded()
    assert guarded.admit((0, "close", {})) is None
    assert guarded.walked(b"\xff" * 100) == lib.WALK_CLOSED
    assert guarded.walk.at == 0


def test_thousands_of_links_are_found_again() -> None:
    """The table grows with them, and has room for others when they are gone."""
    guarded = Guarded()
    guarded.guard = Guard(1_024, 2_000)
    guarded.walk.guard = guarded.guard.states
    assert guarded.admit((0, "open", {})) is None
    for channel in range(40):
        assert guarded.admit((channel, "begin", {})) is None
        for handle in range(100):
            attach = {"name": f"{handle}", "handle": handle, "role": True}
            assert guarded.admit((channel, "attach", attach)) is None
    refused = guarded.admit((0, "attach", {"name": "one more", "handle": 100, "role": True}))
    assert refused is Violation.LINKS_MAX
    assert len(guarded.links) == 4_000
    for channel in range(1, 40, 2):
        assert guarded.admit((channel, "end", {})) is None
    for channel in range(0, 40, 2):
        for handle in range(0, 100, 2):
            assert guarded.admit((channel, "detach", {"handle": handle})) is None
    kept = {(channel, handle) for channel in range(0, 40, 2) for handle in range(1, 100, 2)}
    assert set(guarded.links) == kept
