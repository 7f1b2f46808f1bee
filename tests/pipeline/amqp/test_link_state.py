"""A session's flow, made to speak of links."""

from distributary.pipeline.amqp.link_state import LinkState, told
from distributary.pipeline.amqp.performative import Performative, encode, parse
from distributary.pipeline.codec.amqp_types import read

UINT = b"\x52"
WINDOWS = (UINT + b"\x07", UINT + b"\x64", UINT + b"\x03", UINT + b"\x64")
OF_SESSION = encode(Performative(2, 0x13, WINDOWS))


def flows(frames: bytes) -> list[list[object]]:
    """The fields of one flow after another, as values."""
    found = []
    while frames:
        size = int.from_bytes(frames[:4], "big")
        one = parse(frames[:size])
        assert (one.channel, one.code) == (2, 0x13)
        found.append([read(field, 0)[0] for field in one.fields])
        frames = frames[size:]
    return found


def test_each_link_has_a_flow_with_the_sessions_windows() -> None:
    """Handle, delivery-count, link-credit and drain are the link's."""
    states = [LinkState(1, 5, 0, drain=True), LinkState(300, 2**32 + 4, 7, drain=False)]
    asked = []
    frames = told(OF_SESSION, lambda channel: asked.append(channel) or states)
    assert flows(frames) == [
        [7, 100, 3, 100, 1, 5, 0, None, True],
        [7, 100, 3, 100, 300, 4, 7, None, False],
    ]
    assert asked == [2]


def test_a_flow_that_has_nothing_to_add_stays_as_it_is() -> None:
    """A session's when no link is asked about, and a link's own in any case."""
    assert told(OF_SESSION, lambda _: ()) == OF_SESSION
    of_link = encode(Performative(2, 0x13, (*WINDOWS, UINT + b"\x00")))
    assert told(of_link, lambda _: [LinkState(1, 5, 0, drain=True)]) == of_link
