"""Frames for places where they must not be: each is right by itself."""

import random

from fuzz_cells import Cell
from fuzz_links import attach
from fuzz_messages import message
from gateway_fields import make
from gateway_frames import EMPTY_FRAME, frame_of, framed

#: Bodies that are no performative.
UNKNOWN = [b"\x00\x53\x19\x45", b"\x00\x53\xff\x45", b"\x00\xa3\x01x\x45", b"\x45"]
WINDOW = {"incoming_window": 9, "next_outgoing_id": 0, "outgoing_window": 9}


def misplaced(cell: Cell, channel: int, handle: int, dice: random.Random, name: str) -> bytes:
    """The performative of the cell, on this channel and handle; `name` is the container's."""
    kind = cell.performative.partition(" ")[0]
    if kind == "empty":
        return EMPTY_FRAME
    if kind == "unknown":
        return framed(dice.choice(UNKNOWN))
    if kind == "sasl":
        return frame_of("sasl-init", mechanism="ANONYMOUS")
    fields: dict[str, object] = {
        "open": {"container_id": name},
        "begin": {"next_outgoing_id": 0, "incoming_window": 9, "outgoing_window": 9},
        "flow": {"link_credit": 9, **WINDOW},
        "transfer": {"delivery_id": 1, "delivery_tag": b"t", "message_format": 0},
        "disposition": {"first": 0, "last": 9, "settled": True, "state": make("accepted")},
        "detach": {"closed": dice.random() < 0.5},
    }.get(kind, {})
    if kind in ("attach", "flow", "transfer", "detach"):
        fields["handle"] = handle
    if kind == "attach":
        fields |= attach(dice)[1]
    elif kind == "transfer":
        fields["payload"] = message(dice)
    elif kind == "disposition":
        fields["role"] = cell.performative.endswith("receiver")
    elif cell.where == "answers one":
        channel, fields["remote_channel"] = 50 + dice.randrange(40), dice.randrange(3)
    return frame_of(kind, channel=channel, **fields)
