"""One peer's side of a conversation, as a model: what it has opened, begun, attached and sent.

From the model come frames that fit, so that a conversation gets deep; by a draw one of them breaks
a rule: its place (a cell that isn't legal), a field's value, or some bytes. Nothing is read: what
the gateway says is guessed, its deliveries begin at 0.
"""

import random
from collections import Counter
from dataclasses import dataclass, field

from fuzz_cells import (
    BEYOND,
    BY_NAME,
    CLOSED,
    COORDINATES,
    COVERED,
    DETACHED,
    ENDED,
    FREE,
    ILLEGAL,
    INVERTED,
    MANAGES,
    OWN,
    RECEIVES,
    SENDS,
    SESSION,
    UNOPENED,
    UNUSED,
    Cell,
)
from fuzz_links import Wanted, attach
from fuzz_logins import hello
from fuzz_messages import command, message, request, transaction
from fuzz_misplaced import misplaced
from fuzz_values import EDGES, damaged, error, in_other_words, value, wild
from gateway_codec import Encoded
from gateway_fields import FIELDS, make
from gateway_frames import EMPTY_FRAME, frame_of, framed
from proton import Described, symbol

#: How often a frame breaks a rule by its place, has a field of any value, and has other bytes.
MISPLACED, MISTYPED, DAMAGED, REWORDED = 0.012, 0.02, 0.01, 0.03
#: Frames that are still said after one that isn't legal: most connections are over then.
AFTER_ILLEGAL = 4
CHANNELS, HANDLES = 3, 6


@dataclass
class Session:
    """The peer's state of a channel."""

    links: dict[int, Wanted] = field(default_factory=dict)
    detached: set[int] = field(default_factory=set)
    deliveries: int = 0
    unfinished: dict[int, bool] = field(default_factory=dict)


class Speaker:
    """Says frames, one after the other; `cells` counts where they were said."""

    def __init__(
        self, dice: random.Random, container: str, cells: Counter[Cell], *, users: bool = False
    ) -> None:
        self._dice, self._container, self._cells = dice, container, cells
        self._users = users
        self._sessions: dict[int, Session] = {}
        self._ended: set[int] = set()
        self._state = UNOPENED
        self._broken = False

    def frames(self, length: int) -> list[bytes]:
        """A conversation of so many frames, headers first."""
        said = hello(self._dice, users=self._users)
        if self._dice.random() < 0.05:
            said.append(self._misplaced(UNOPENED))
        if self._state == UNOPENED:
            said.append(self._finished(self._open()))
        left = length
        while left > 0:
            left -= 1
            said.append(self._frame())
            if self._broken:
                left, self._broken = min(left, AFTER_ILLEGAL), False
        if self._dice.random() < 0.5 and self._state == "opened":
            said.append(self._said("close", "opened", frame_of("close")))
            if self._dice.random() < 0.2:
                said.append(self._misplaced(CLOSED))
        return said

    # One frame.

    def _frame(self) -> bytes:
        """The next frame, mostly one that is legal."""
        if self._state == "opened" and self._dice.random() < MISPLACED:
            return self._misplaced("opened")
        return self._finished(self._legal())

    def _finished(self, frame: bytes) -> bytes:
        draw = self._dice.random()
        if draw < DAMAGED:
            return damaged(frame, self._dice)
        return in_other_words(frame, self._dice) if draw < DAMAGED + REWORDED else frame

    def _said(self, performative: str, where: str, frame: bytes) -> bytes:
        cell = BY_NAME[performative, where]
        self._cells[cell] += 1
        self._broken = self._broken or not cell.legal
        return frame

    def _made(self, kind: str, channel: int = 0, payload: bytes = b"", **given: object) -> bytes:
        """A frame of these fields; by a draw one of them has any value at all."""
        dice = self._dice
        if dice.random() < MISTYPED:
            given[dice.choice(FIELDS[kind][1])[0].replace("-", "_")] = wild(dice)
        if dice.random() < 0.004:  # no list, or one with any fields
            body = b"\x00\x53" + bytes([FIELDS[kind][0]]) + value(dice)
            return framed(body + payload, channel=channel)
        return frame_of(kind, channel=channel, payload=payload, **given)

    def _legal(self) -> bytes:
        dice = self._dice
        if self._state != "opened":
            return self._said("empty", self._state, EMPTY_FRAME)
        if not self._sessions or (len(self._sessions) < CHANNELS and dice.random() < 0.03):
            return self._begin(dice.choice([n for n in range(CHANNELS) if n not in self._sessions]))
        channel = dice.choice(list(self._sessions))
        session = self._sessions[channel]
        links = len(session.links)
        kind = dice.choices(
            ["attach", "flow", "transfer", "disposition", "detach", "end", "empty"],
            [8 if links < HANDLES else 0, 5, 9 * links, 4 * links, 0.8 * links, 0.3, 0.2],
        )[0]
        match kind:
            case "attach":
                return self._attach(channel)
            case "flow":
                return self._flow(channel)
            case "transfer":
                return self._transfer(channel)
            case "disposition":
                return self._disposition(channel)
            case "detach":
                return self._detach(channel)
            case "end":
                return self._end(channel)
        return self._said("empty", "opened", EMPTY_FRAME)

    # What is legal.

    def _open(self) -> bytes:
        dice = self._dice
        self._state = "opened"
        frame = self._made(
            "open",
            container_id=self._container,
            hostname="h",
            channel_max=100,
            max_frame_size=dice.choice([None, 512, 65_536, 1 << 20]),
            idle_time_out=dice.choice([None, None, 30_000]),
            desired_capabilities=["DELAYED_DELIVERY", "sole-connection-for-container"][
                : dice.randrange(2)
            ],
            properties={symbol("product"): "fuzz"} if dice.random() < 0.3 else None,
        )
        return self._said("open", UNOPENED, frame)

    def _begin(self, channel: int) -> bytes:
        where = ENDED if channel in self._ended else UNUSED
        self._sessions[channel] = Session()
        self._ended.discard(channel)
        window = self._dice.choice([2_047, 2_047, 1, 0])
        return self._said(
            "begin",
            where,
            self._made(
                "begin",
                channel,
                next_outgoing_id=1,
                incoming_window=window,
                outgoing_window=0x7FFFFFFF,
                handle_max=self._dice.choice([None, 255]),
            ),
        )

    def _attach(self, channel: int) -> bytes:
        session = self._sessions[channel]
        handle = self._dice.choice([n for n in range(HANDLES + 1) if n not in session.links])
        where = DETACHED if handle in session.detached else FREE
        session.links[handle], fields = attach(self._dice)
        session.detached.discard(handle)
        return self._said("attach", where, self._made("attach", channel, handle=handle, **fields))

    def _flow(self, channel: int) -> bytes:
        dice, session = self._dice, self._sessions[channel]
        handle = dice.choice([None, *session.links, *session.links])
        window = {
            "next_incoming_id": dice.choice([0, 0, 1, dice.choice(EDGES)]),
            "incoming_window": dice.choice([2_047, 2_047, 5, 0]),
            "next_outgoing_id": 1,
            "outgoing_window": 0x7FFFFFFF,
        }
        if handle is None:
            return self._said(
                "flow", SESSION, self._made("flow", channel, **window, echo=dice.random() < 0.2)
            )
        sends = session.links[handle].sends
        props = {symbol("txn-id"): transaction(dice)} if dice.random() < 0.05 else None
        frame = self._made(
            "flow",
            channel,
            **window,
            handle=handle,
            delivery_count=dice.choice([0, 0, dice.choice(EDGES)]),
            link_credit=dice.choice([1, 10, 900, 900, dice.choice(EDGES)]),
            drain=dice.random() < 0.2,
            echo=dice.random() < 0.1,
            properties=props,
        )
        return self._said("flow", SENDS if sends else RECEIVES, frame)

    def _transfer(self, channel: int) -> bytes:
        """A message, or a part of one; to a coordinator a command, to the node a request."""
        dice, session = self._dice, self._sessions[channel]
        senders = [handle for handle, link in session.links.items() if link.sends]
        if not senders:
            return self._disposition(channel)
        handle = dice.choice(senders)
        link = session.links[handle]
        where = {"coordinator": COORDINATES, "management": MANAGES}.get(link.kind, SENDS)
        makes = {COORDINATES: command, MANAGES: request}.get(where, message)
        payload = makes(dice)
        more = dice.random() < 0.06
        continues = session.unfinished.get(handle, False)
        session.unfinished[handle] = more
        if more or continues:
            payload = payload[: dice.randrange(len(payload) + 1)]
        if not continues:
            session.deliveries += 1
        state = (
            make("transactional-state", txn_id=transaction(dice)) if dice.random() < 0.15 else None
        )
        if dice.random() < 0.03:
            state = dice.choice(
                [make("accepted"), make("received", section_number=0, section_offset=0), wild(dice)]
            )
        id_ = session.deliveries - (0 if dice.random() < 0.97 else dice.choice([1, -1, 7]))
        frame = self._made(
            "transfer",
            channel,
            payload,
            handle=handle,
            delivery_id=id_ & 0xFFFFFFFF,
            delivery_tag=id_.to_bytes(4, "big", signed=True),
            message_format=0,
            settled=dice.random() < 0.2,
            more=more,
            state=state,
            aborted=dice.random() < 0.02,
        )
        return self._said("transfer", where, frame)

    def _state_of(self) -> Described | Encoded | None:
        dice = self._dice
        outcome = dice.choice(
            [
                make("accepted"),
                make("accepted"),
                make("released"),
                make("rejected"),
                make("rejected", error=error(dice)),
                make(
                    "modified",
                    delivery_failed=True,
                    undeliverable_here=dice.random() < 0.5,
                    message_annotations={symbol("x-opt-a"): wild(dice)}
                    if dice.random() < 0.2
                    else None,
                ),
                make("received", section_number=0, section_offset=dice.choice([0, 1 << 40])),
                None,
            ]
        )
        if dice.random() < 0.2:
            return make("transactional-state", txn_id=transaction(dice), outcome=outcome)
        return wild(dice) if dice.random() < 0.02 else outcome

    def _disposition(self, channel: int, *, misplaced: str = "") -> bytes:
        dice, session = self._dice, self._sessions.get(channel, Session())
        role = dice.random() < 0.75
        first = (
            dice.choice([0, 0, 1, dice.randrange(40)]) if role else max(1, session.deliveries - 2)
        )
        where = misplaced or (COVERED if role else OWN)
        last = first + dice.choice([0, 0, 1, 30])
        if misplaced == INVERTED:
            first, last = last + 3, first
        elif not misplaced and dice.random() < 0.05:
            where, first, last = (
                BEYOND,
                dice.choice(EDGES),
                dice.choice([0xFFFFFFFF, 0x7FFFFFFF + last]),
            )
        frame = self._made(
            "disposition",
            channel,
            role=role,
            first=first,
            last=last if dice.random() < 0.9 else None,
            settled=dice.random() < 0.7,
            state=self._state_of(),
        )
        return self._said(f"disposition as {'receiver' if role else 'sender'}", where, frame)

    def _detach(self, channel: int) -> bytes:
        dice, session = self._dice, self._sessions[channel]
        if not session.links:
            return self._flow(channel)
        handle = dice.choice(list(session.links))
        link = session.links.pop(handle)
        session.detached.add(handle)
        session.unfinished.pop(handle, None)
        where = {"coordinator": COORDINATES, "management": MANAGES}.get(
            link.kind if link.sends else "", SENDS if link.sends else RECEIVES
        )
        why = error(dice) if dice.random() < 0.1 else None
        return self._said(
            "detach",
            where,
            self._made("detach", channel, handle=handle, closed=dice.random() < 0.6, error=why),
        )

    def _end(self, channel: int) -> bytes:
        del self._sessions[channel]
        self._ended.add(channel)
        why = error(self._dice) if self._dice.random() < 0.1 else None
        return self._said("end", SESSION, self._made("end", channel, error=why))

    # What isn't legal.

    def _misplaced(self, state: str) -> bytes:
        """A frame in a place where it must not be, of those that can be had in this state; those
        that were seen least come first."""
        fits = [cell for cell in ILLEGAL if self._fits(cell, state)]
        fits.sort(key=lambda cell: self._cells[cell])
        cell = self._dice.choice(fits[: max(1, len(fits) // 3)])
        channel, handle = self._place(cell)
        self._broken = True
        if cell.performative.startswith("disposition") and cell.where == INVERTED:
            return self._disposition(channel, misplaced=INVERTED)
        self._cells[cell] += 1
        return misplaced(cell, channel, handle, self._dice, self._container)

    def _fits(self, cell: Cell, state: str) -> bool:
        if cell.where in (UNOPENED, CLOSED, "opened"):
            return cell.where == state
        if state != "opened":
            return False
        links = [link for one in self._sessions.values() for link in one.links.values()]
        needs = {
            UNUSED: len(self._sessions) < CHANNELS,
            ENDED: self._ended,
            SENDS: any(link.sends for link in links),
            RECEIVES: any(not link.sends for link in links),
            DETACHED: any(one.detached for one in self._sessions.values()),
        }
        return bool(needs.get(cell.where, self._sessions))

    def _place(self, cell: Cell) -> tuple[int, int]:
        """A channel and a handle that are so."""
        dice = self._dice
        if cell.where == ENDED:
            return dice.choice(list(self._ended)), 0
        if cell.where == UNUSED:
            return dice.choice([9, 99, 101, 0xFFFF]), 0
        for channel, one in self._sessions.items():
            for handle, link in one.links.items():
                if (cell.where == SENDS and link.sends) or (
                    cell.where == RECEIVES and not link.sends
                ):
                    return channel, handle
            if cell.where == DETACHED and one.detached:
                return channel, dice.choice(list(one.detached))
        channel = dice.choice(list(self._sessions)) if self._sessions else 0
        return channel, dice.choice([99, 0xFFFFFFFF, 0x7FFFFFFF])
