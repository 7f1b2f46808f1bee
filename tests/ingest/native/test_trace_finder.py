"""C finds the same traces as the pure reader, for bytes of every kind."""

import random
from array import array

import pytest
from gateway_codec import encode
from proton import Message, symbol

from distributary.ingest.native.trace_finder import TraceFinder
from distributary.pipeline.model.record_batch import RecordBatch
from distributary.pipeline.tracing.trace_context import TraceContext, read_context
from distributary.pipeline.tracing.trace_span import Published, TracedMessage, span_of

RIGHT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def batch_of(messages: list[bytes], sequences: "array[int] | None" = None) -> RecordBatch:
    offsets = array("i", [0])
    for one in messages:
        offsets.append(offsets[-1] + len(one))
    first = 100 if sequences is None else sequences[0]
    return RecordBatch(first, len(messages), b"".join(messages), offsets.tobytes(), sequences)


def found(messages: list[bytes], most: int = 1_000) -> list[tuple[int, TracedMessage]]:
    batch = batch_of(messages)
    return TraceFinder(1_000).find(batch, range(100, batch.stop), most, int)[0]


def message(text: object, **fields: object) -> bytes:
    return bytes(Message(properties={"a": 1, "traceparent": text, "b": "c"}, **fields).encode())


def drawn(dice: random.Random) -> str:
    """A traceparent, changed in a place or two."""
    letters = [*RIGHT.replace("-01", dice.choice(("-01", "-00", "-ff", "-01-x", "-01x")))]
    for _ in range(dice.choice((0, 0, 1, 2))):
        letters[dice.randrange(len(letters))] = dice.choice("0123456789abcdefgAF- \u00e9")
    return "".join(letters[: dice.choice((len(letters), len(letters), dice.randint(0, 60)))])


#: What a change of a letter or two seldom makes.
RARE = (
    RIGHT,
    RIGHT[:-1] + "0",
    f"00-{'0' * 32}-00f067aa0ba902b7-01",
    f"00-4bf92f3577b34da6a3ce929d0e0e4736-{'0' * 16}-01",
    f"ff{RIGHT[2:]}",
    f"fe{RIGHT[2:]}",
    f"01{RIGHT[2:]}-more",
    f"01{RIGHT[2:]}.more",
    f"00{RIGHT[2:]}-more",
    RIGHT.upper(),
    "",
    "0" * 10_240,
)


@pytest.mark.parametrize("section", ["properties", "annotations"])
def test_texts_are_read_as_the_pure_reader_does(section: str) -> None:
    """Twenty thousand of them, in each of the two places."""
    dice = random.Random(7)
    texts = [*RARE, *(drawn(dice) for _ in range(19_988))]
    for at in range(0, len(texts), 1_000):
        part = texts[at : at + 1_000]
        if section == "properties":
            messages = [message(one) for one in part]
        else:
            said = [{symbol("traceparent"): one, symbol("a"): 1} for one in part]
            messages = [bytes(Message(annotations=one).encode()) for one in said]
        seen = {number - 100: read_context(one.parent.decode()) for number, one in found(messages)}
        right: dict[int, TraceContext] = {
            nth: context
            for nth, one in enumerate(part)
            if (context := read_context(one)) is not None
        }
        assert seen == right
        assert 100 < len(right) < 900


@pytest.mark.parametrize("seed", range(20))
def test_broken_bytes_are_passed_over(seed: int) -> None:
    """Cut anywhere, or changed anywhere: nothing is read beyond a message, and what is found has
    the right size."""
    dice = random.Random(seed)
    whole = message(RIGHT, id="id", annotations={symbol("tracestate"): "x=y"}, body="z" * 300)
    messages = [b""]
    for _ in range(500):
        one = bytearray(whole[: dice.randint(0, len(whole))] if dice.random() < 0.5 else whole)
        for _ in range(dice.randint(0, 3)):
            if one:
                one[dice.randrange(len(one))] = dice.randrange(256)
        messages.append(bytes(one))
    for number, one in found(messages):
        assert one.size == len(messages[number - 100])
        assert one.sequence == number


def test_it_says_the_message_id_and_the_state() -> None:
    annotated = {symbol("traceparent"): RIGHT, symbol("tracestate"): "k=v"}
    messages = [
        message(RIGHT, id="abc"),
        message(RIGHT, id=7),
        bytes(Message(annotations=annotated, id="def", body="b").encode()),
        bytes(Message(annotations=annotated, body="b").encode()),
        bytes(Message(properties={"tracestate": "z" * 600, "traceparent": RIGHT}).encode()),
        message(RIGHT, id="y" * 4_000),
        message(RIGHT, id="y" * 1_000),
    ]
    spans = [span_of(Published(one, "t", 1, 2)) for _, one in found(messages)]
    said = [
        (span.attributes.get("messaging.message.id", ""), span.context.state)
        for span in spans
        if span is not None
    ]
    assert said == [
        ("abc", ""),
        ("ID:AMQP_ULONG:7", ""),
        ("def", "k=v"),
        ("", "k=v"),
        ("", ""),
        ("", ""),
        ("y" * 256, ""),
    ]


def test_properties_without_end_are_not_read_to_it() -> None:
    """512 of them are; what stands behind is not seen."""
    few, many = {f"p{n}": n for n in range(511)}, {f"p{n}": n for n in range(512)}
    messages = [b"\x00\x53\x74" + encode({**some, "traceparent": RIGHT}) for some in (few, many)]
    assert [number for number, _ in found(messages)] == [100]


def test_runs_of_every_kind() -> None:
    """Strides of a dense batch, lists of a dense one, parts of a batch that lists its sequences."""
    traced, plain = message(RIGHT), message("no")
    messages = [traced if nth % 3 == 0 else plain for nth in range(30)]
    finder = TraceFinder(100)
    dense = batch_of(messages)
    listed = batch_of(messages, array("q", range(1_000, 1_300, 10)))

    def numbers(batch: RecordBatch, run: "range | array[int]") -> list[int]:
        return [number for number, _ in finder.find(batch, run, 100, int)[0]]

    assert numbers(dense, range(100, 130)) == [*range(100, 130, 3)]
    assert numbers(dense, range(101, 130, 4)) == [109, 121]
    assert numbers(dense, array("q", [101, 103, 110, 112, 118])) == [103, 112, 118]
    assert numbers(listed, range(1_000, 1_300, 10)) == [*range(1_000, 1_300, 30)]
    assert numbers(listed, array("q", [1_010, 1_030, 1_120])) == [1_030, 1_120]
    assert numbers(dense, range(0)) == []


def test_no_more_than_may_be_found_are() -> None:
    batch = batch_of([message(RIGHT)] * 50)
    finder = TraceFinder(20)
    for most, got in ((10, 10), (30, 20), (0, 0), (-1, 0)):
        some, more = finder.find(batch, range(100, 150), most, int)
        assert (len(some), more) == (got, 50 - got)
