"""The work of selectors: charged by the texts that they go over and the bytes that are read."""

from array import array

from distributary.pipeline.codec.amqp_types import Map, Value
from distributary.pipeline.codec.amqp_writer import write
from distributary.pipeline.model.record_batch import RecordBatch
from distributary.pipeline.model.subscription import Definition
from distributary.pipeline.selector.matching import Selections
from distributary.pipeline.selector.reading import ELEMENTS_MAX, Columns, Reader


def encoded(said: dict[str, Value]) -> bytes:
    """A message with these application properties."""
    return b"\x00\x53\x74" + write(Map(tuple(said.items()))) + b"\x00\x53\x75\xa0\x01x"


def batch(messages: list[bytes]) -> RecordBatch:
    offsets = array("i", [0])
    for one in messages:
        offsets.append(offsets[-1] + len(one))
    return RecordBatch(0, len(messages), b"".join(messages), offsets.tobytes())


def definition(text: str) -> Definition:
    return Definition("flights", shared=False, selector=text)


LONG = "a" * 60_000


def long_texts(count: int) -> list[bytes]:
    return [encoded({"n": n, "t": LONG}) for n in range(count)]


def test_work_grows_with_the_texts_that_are_gone_over() -> None:
    """A long text that LIKE looks at is as much work as hundreds of messages, so that others have
    their turn after one of them; without LIKE it is read, and that is all."""
    selections = Selections()
    for text, most in (("t LIKE '%aab%' AND n >= 0", 1), ("n >= 0", 40)):
        selections.join(definition(text))
        found = selections.matches(definition(text), batch(long_texts(40)), 0, room=99, work_max=50)
        assert found.stop == most
        assert found.work >= (50 if most == 1 else 1)
        selections.leave(definition(text))


def test_long_texts_are_not_gone_over_for_everybody_at_once() -> None:
    """A hundred selectors with LIKE: each goes over such a message in its own turn; what they find
    is what it would be alone, and short texts are still read once for all."""
    selections = Selections()
    texts = [f"t LIKE '%a%b%' OR n = {n}" for n in range(100)]
    for text in texts:
        selections.join(definition(text))
    messages = [encoded({"n": n, "t": "ab" if n % 3 else LONG}) for n in range(12)]
    for n, text in enumerate(texts[:12]):
        matched: list[int] = []
        at = most = 0
        while at < 12:
            found = selections.matches(definition(text), batch(messages), at, room=99, work_max=500)
            assert found.stop > at
            assert found.sequences is not None
            matched += found.sequences
            at, most = found.stop, max(most, found.work)
        assert matched == [m for m in range(12) if m % 3 or m == n]
        assert most <= 500, "no call went over a long text for more than one of them"


def test_large_messages_are_read_a_few_at_a_time() -> None:
    """They are read a few at a time with any room."""

    class Counting(Reader):
        def columns(self, batch: RecordBatch, first: int, stop: int) -> tuple[Columns, int]:
            widths.append(stop - first)
            return super().columns(batch, first, stop)

    widths: list[int] = []
    selections = Selections(Counting)
    selections.join(definition("n >= 0"))
    body = b"\x00\x53\x75\xb0\x00\x04\x00\x00" + bytes(1 << 18)
    large = [encoded({"n": n}) + body for n in range(9)]
    selections.matches(definition("n >= 0"), batch(large), 0, room=99, work_max=99)
    assert sum(widths) == 9
    assert max(widths) <= 4


def test_properties_without_end_say_nothing() -> None:
    """As many as a message may have that is decoded: a message with more can't hold others up."""
    for count, wanted in ((ELEMENTS_MAX // 2, [0]), (ELEMENTS_MAX // 2 + 1, [])):
        said = {f"{n}": None for n in range(count - 1)}
        selections = Selections()
        selections.join(definition("n = 1"))
        found = selections.matches(
            definition("n = 1"), batch([encoded({"n": 1, **said})]), 0, room=9, work_max=9
        )
        assert found.sequences is not None
        assert found.sequences.tolist() == wanted
