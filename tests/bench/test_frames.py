"""The load clients' own encoder, read by Proton's decoder: what we lay out is what AMQP says."""

import struct
from typing import Any

import numpy as np
from proton import Data, Described, Message, symbol

from tests.bench import frames


def performative(frame: bytes) -> tuple[int, list[Any], bytes]:
    """Code, fields and payload of one frame, by Proton's decoder."""
    assert int.from_bytes(frame[:4]) == len(frame)
    assert frame[4] == 2
    data = Data()
    used = data.decode(frame[8:])
    data.rewind()
    data.next()
    found: Any = data.get_object()
    # A binary comes as a view into the decoder's memory: copied before that is gone.
    own = [bytes(field) if isinstance(field, memoryview) else field for field in found.value]
    return int(found.descriptor), own, frame[8 + used :]


class TestAgainstProton:
    def test_message(self) -> None:
        """A message is persistent, and has the address and as many bytes of data as asked for."""
        message = Message()
        message.decode(frames.message(1024, "orders"))
        assert message.durable
        assert message.address == "orders"
        assert message.properties == {"k": "v", "n": 5}
        body: Any = message.body
        assert bytes(body) == b"x" * 1024

    def test_traces(self) -> None:
        """Every message says one, one in ten is recorded."""
        payload = frames.message(10, "orders", traced=True)
        rows = frames.with_traces(frames.transfers(20, payload), 10)
        texts = []
        for row in rows:
            message = Message()
            message.decode(performative(row.tobytes())[2])
            texts.append(message.properties["traceparent"])
        assert [nth for nth, text in enumerate(texts) if text.endswith("-01")] == [0, 10]
        assert {text[:-1] for text in texts} == {frames.TRACEPARENT[:-1]}

    def test_transfer(self) -> None:
        """A transfer has its delivery id, its tag and the untouched payload; it is unsettled."""
        code, fields, payload = performative(frames.transfer(7, b"payload"))
        assert code == frames.TRANSFER
        assert fields[:2] == [0, 7]
        assert fields[2] == struct.pack(">Q", 7)
        assert fields[4] is False
        assert payload == b"payload"

    def test_disposition(self) -> None:
        """A disposition accepts and settles its range in the role of a receiver."""
        code, fields, _ = performative(frames.disposition(3, 9))
        assert code == frames.DISPOSITION
        assert fields[:4] == [True, 3, 9, True]
        assert fields[4].descriptor == frames.ACCEPTED

    def test_flow(self) -> None:
        """A flow tells session and link how far the receiver is and what it will take."""
        code, fields, _ = performative(frames.flow(12, 500))
        assert code == frames.FLOW
        assert fields[0] == 12
        assert fields[4:7] == [0, 12, 500]

    def test_shared_durable(self) -> None:
        """A consumer of a shared durable subscription attaches as a JMS client does."""
        code, fields, _ = performative(frames.shared_durable("jobs", "orders"))
        source = fields[5].value
        assert code == frames.ATTACH
        assert fields[0] == "jobs|global"
        assert fields[2] is True
        assert source[:3] == ["orders", 2, symbol("never")]
        assert list(source[10].elements) == ["topic", "shared", "global"]
        assert list(source[9].elements) == list(frames.OUTCOMES)

    def test_sender(self) -> None:
        """A publisher attaches to a topic, with a delivery count that begins at 0."""
        code, fields, _ = performative(frames.attach_sender("p", "orders"))
        assert code == frames.ATTACH
        assert fields[2] is False
        assert fields[6].value[0] == "orders"
        assert fields[9] == 0

    def test_connection(self) -> None:
        """Open, begin, detach and close say who, how much, whether for good, and that it ends."""
        assert performative(frames.open_connection("me", "there"))[1][:2] == ["me", "there"]
        assert performative(frames.begin())[1] == [None, 0, frames.WINDOW, frames.WINDOW]
        assert performative(frames.detach(closed=True))[1] == [0, True]
        assert performative(frames.close())[:2] == (frames.CLOSE, [])


class TestLaidOut:
    def test_transfers_are_transfers(self) -> None:
        """Every row is the frame that `transfer` makes for its number."""
        rows = frames.transfers(300, b"payload")
        assert [bytes(row) for row in rows] == [frames.transfer(i, b"payload") for i in range(300)]

    def test_random_data(self) -> None:
        """Only the last bytes of a payload are random, and each payload's are others."""
        rows = frames.transfers(3, b"head" + b"x" * 64, random_bytes=64)
        assert all(bytes(row[:-64]).endswith(b"head") for row in rows)
        assert len({bytes(row[-64:]) for row in rows}) == 3

    def test_dispositions_are_dispositions(self) -> None:
        """Every row settles one delivery, counted from any first one, over the end of 32 bits."""
        rows = frames.dispositions(4, 0xFFFFFFFE)
        numbers = np.array([0xFFFFFFFE, 0xFFFFFFFF, 0, 1])
        assert [bytes(row) for row in rows] == [frames.disposition(i, i) for i in numbers]


class TestReading:
    def test_split_keeps_the_rest(self) -> None:
        """Complete frames are taken out, a torn one waits for its other half; empty ones are -1."""
        empty = struct.pack(">IBBH", 8, 2, 0, 0)
        buffer = bytearray(frames.close() + empty + frames.begin()[:10])
        assert [frame.code for frame in frames.split(buffer)] == [frames.CLOSE, -1]
        buffer += frames.begin()[10:]
        assert [frame.code for frame in frames.split(buffer)] == [frames.BEGIN]
        assert not buffer

    def test_reads_what_proton_writes(self) -> None:
        """Fields that Proton encoded in its compact forms come out as they went in."""
        error = Described(frames.ERROR, [symbol("amqp:not-found"), "no such thing"])
        data = Data()
        data.put_object(Described(frames.DETACH, [0, True, error]))
        found = frames.split(bytearray(frames.frame(bytes(data.encode()))))
        assert found[0].code == frames.DETACH
        assert found[0].fields(4)[:2] == [0, True]
        assert frames.error_text(found[0].fields(4)) == "amqp:not-found: no such thing"
