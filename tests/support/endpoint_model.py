"""The frames that a peer may send, by a plain interpreter of the tables of
`pipeline.amqp.endpoint_states`. Tests compare the guard in C with it.
"""

from dataclasses import dataclass, field

from distributary.pipeline.amqp.endpoint_states import (
    CONNECTION,
    HANDLE_MAX,
    LINK,
    SESSION,
    ConnectionState,
    Kind,
    LinkState,
    SessionState,
    Violation,
)

#: A frame: its channel, its performative, and the performative's fields by name.
Sent = tuple[int, str, dict[str, object]]
SERIAL = 1 << 32


@dataclass
class Link:
    state: LinkState
    name: str
    sends: bool
    delivery: int = 0


@dataclass
class Session:
    next_id: int | None = None
    links: dict[int, Link] = field(default_factory=dict)


class Endpoints:
    """A peer's connection; `admit` says what of a frame isn't allowed, or takes it in."""

    def __init__(self, channels_max: int, links_max: int) -> None:
        self.state = ConnectionState.AWAITING_OPEN
        self.channel_max, self.links_max = channels_max - 1, links_max
        self.sessions: dict[int, Session] = {}

    def admit(self, frame: Sent) -> Violation | None:
        channel, name, fields = frame
        kind = kind_of(name, fields)
        after = CONNECTION[kind][self.state]
        if isinstance(after, Violation):
            return after
        if kind is Kind.OPEN:
            self.channel_max = min(self.channel_max, int(fields.get("channel_max", 0xFFFF)))
        elif kind is not Kind.CLOSE and (wrong := self._in_session(kind, channel, fields)):
            return wrong
        self.state = ConnectionState(after)
        return None

    def _in_session(self, kind: Kind, channel: int, fields: dict) -> Violation | None:
        session = self.sessions.get(channel)
        after = SESSION[kind][SessionState(session is not None)]
        if isinstance(after, Violation):
            return after
        if kind in LINK:
            assert session is not None
            return self._on_link(kind, session, fields)
        if kind is Kind.BEGIN:
            if channel > self.channel_max:
                return Violation.CHANNEL_MAX
            if "remote_channel" in fields:
                return Violation.REMOTE_CHANNEL
            self.sessions[channel] = Session()
        if kind is Kind.END:
            del self.sessions[channel]
        return disposition(session, fields) if kind is Kind.DISPOSITION else None

    def _on_link(self, kind: Kind, session: Session, fields: dict) -> Violation | None:
        handle = fields["handle"]
        attaches = kind in (Kind.ATTACH_SENDER, Kind.ATTACH_RECEIVER)
        if handle > HANDLE_MAX:
            return Violation.HANDLE_MAX if attaches else Violation.UNATTACHED
        link = session.links.get(handle)
        after = LINK[kind][link.state if link else LinkState.UNATTACHED]
        if isinstance(after, Violation):
            return after
        if attaches:
            return self._attach(session, LinkState(after), fields)
        assert link is not None
        if kind in (Kind.TRANSFER_MORE, Kind.TRANSFER_LAST) and (
            wrong := transfer(session, link, fields)
        ):
            return wrong
        link.state = LinkState(after)
        if link.state is LinkState.UNATTACHED:
            del session.links[handle]
        return None

    def _attach(self, session: Session, after: LinkState, fields: dict) -> Violation | None:
        if sum(len(one.links) for one in self.sessions.values()) == 2 * self.links_max:
            return Violation.LINKS_MAX
        link = Link(after, fields["name"], sends=not fields["role"])
        if any((one.name, one.sends) == (link.name, link.sends) for one in session.links.values()):
            return Violation.NAME_IN_USE
        session.links[fields["handle"]] = link
        return None


def kind_of(name: str, fields: dict) -> Kind:
    match name:
        case "attach":
            return Kind.ATTACH_RECEIVER if fields["role"] else Kind.ATTACH_SENDER
        case "flow":
            return Kind.LINK_FLOW if "handle" in fields else Kind.SESSION_FLOW
        case "transfer":
            more = fields.get("more") and not fields.get("aborted")
            return Kind.TRANSFER_MORE if more else Kind.TRANSFER_LAST
    return Kind[name.upper()]


def transfer(session: Session, link: Link, fields: dict) -> Violation | None:
    number = fields.get("delivery_id")
    if link.state is LinkState.SENDING:
        return Violation.OTHER_DELIVERY if number not in (None, link.delivery) else None
    if number is None:
        return Violation.NO_DELIVERY_ID
    if "delivery_tag" not in fields:
        return Violation.NO_DELIVERY_TAG
    if session.next_id not in (None, number):
        return Violation.DELIVERY_ID
    session.next_id, link.delivery = (number + 1) % SERIAL, number
    return None


def disposition(session: Session | None, fields: dict) -> Violation | None:
    assert session is not None
    first = fields["first"]
    last = fields.get("last", first)
    if (last - first) % SERIAL >= SERIAL // 2:
        return Violation.RANGE
    sent = session.next_id is not None and (last - session.next_id) % SERIAL >= SERIAL // 2
    return None if fields["role"] or sent else Violation.NEVER_SENT
