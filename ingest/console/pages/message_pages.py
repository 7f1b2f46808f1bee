"""Messages: pages of them, and the life of one, by an address that can be sent to a colleague."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from starlette.responses import RedirectResponse, Response

from distributary.ingest.console.insight import life_timeline
from distributary.ingest.console.log_rows.sight import Sight
from distributary.ingest.console.pages.page import Page
from distributary.ingest.console.pages.viewer_rights import sight_of
from distributary.ingest.console.records.browsing import Page as MessagePage
from distributary.ingest.console.records.browsing import Query
from distributary.ingest.console.records.message_life import (
    Held,
    MessageLife,
    StayState,
    with_held,
)
from distributary.ingest.console.web.visit import Visit
from distributary.jobs.client.management_client import Refused, Unanswered
from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.log.log_position import AtEnd, AtSequence, AtTime, place
from distributary.pipeline.log_names import MAIN
from distributary.pipeline.management.management_messages import Entity, Verb
from distributary.pipeline.model.topic_pattern import is_pattern

#: Sequences have 63 bits; a longer number is none.
DIGITS_MAX: Final = 18
#: Subscriptions of one message whose deliveries in flight the gateway is asked for.
ASKED_MAX: Final = 20
#: Times that a page of a pattern is read again, as the visitor may not see some of its topics.
ROUNDS: Final = 5


@dataclass(frozen=True, slots=True)
class Asked:
    """The address's parameters; all are text, as typed."""

    topic: str
    subscription: str
    selector: str
    since: str
    order: str
    waiting: bool
    at: str

    @classmethod
    def of(cls, visit: Visit) -> "Asked":
        asked = visit.asked
        return cls(
            asked("topic").strip(),
            asked("subscription").strip(),
            asked("selector").strip(),
            asked("since").strip(),
            "oldest" if asked("order") == "oldest" else "newest",
            asked("waiting") == "yes",
            asked("at"),
        )

    def values(self, **other: str) -> dict[str, str | None]:
        """The address' parts, those that say nothing left out."""
        said = {
            "topic": self.topic,
            "subscription": self.subscription,
            "selector": self.selector,
            "since": self.since,
            "order": self.order if self.order != "newest" else "",
            "waiting": "yes" if self.waiting else "",
            **other,
        }
        return {name: value or None for name, value in said.items()}


async def show(visit: Visit) -> Response:
    """The form, and a page of messages if the address says which."""
    asked = Asked.of(visit)
    if jump := visit.asked("sequence").strip():
        return RedirectResponse(visit.link(f"/messages/{_sequence(jump)}"), status_code=303)
    values: dict[str, object] = {"asked": asked, "found": None, "why": "", "claims": None}
    values |= {"logs": visit.console.records.logs, "asked_log": visit.asked("log")}
    status = 200
    if asked.topic or asked.subscription:
        try:
            visit = _placed(visit, asked)
            values |= await _found(visit, asked)
        except InvalidRequest as error:
            values["why"], status = f"{error}.", 400
    return visit.page("messages.html", "messages", values, status)


def _placed(visit: Visit, asked: Asked) -> Visit:
    """The visit, in the log of the topic that is asked for. Raises InvalidRequest for a pattern
    whose topics may be in several."""
    if visit.log or not asked.topic or asked.subscription:
        return visit
    log = visit.console.records.log_of(asked.topic)
    if log is None:
        logs = ", ".join(visit.console.records.logs)
        raise InvalidRequest(
            f"the topics of {asked.topic} may be in several logs: name one, {logs}"
        )
    return visit if log == MAIN else replace(visit, placed=log)


async def _found(visit: Visit, asked: Asked) -> dict[str, object]:
    records = await visit.records()
    query, claims = await _query(visit, asked)
    place = await _place(visit, asked.since)
    at = _sequence(asked.at) if asked.at else None
    newest = asked.order == "newest"
    start = max(query.start, place if place is not None else 0)
    if at is not None and not newest:
        start = max(start, at)
    stop = at if newest else None
    query = Query(query.topic, query.selector, start, stop, newest, query.standing)
    began = time.monotonic()
    page = await _seen(visit, query)
    return {
        "found": page,
        "query": query,
        "claims": claims,
        "took_ms": (time.monotonic() - began) * 1_000,
        "next": page.next,
        "pattern": is_pattern(query.topic),
        "limits": records.limits,
    }


async def _query(visit: Visit, asked: Asked) -> tuple[Query, str | None]:
    """The topic and the selector that are meant, by a subscription if one is named."""
    records = await visit.records()
    if not asked.subscription:
        return Query(asked.topic, asked.selector or None), None
    incarnation = await records.ask(records.incarnation, asked.subscription)
    known = incarnation is not None and await sight_of(
        visit, (), {asked.subscription: incarnation.topic}
    )
    if incarnation is None or not known or not known.subscription(asked.subscription):
        raise InvalidRequest(
            f"the tables know no durable subscription {asked.subscription} that lives, or you may "
            "not see it; what was made within the last second isn't in them yet"
        )
    own = incarnation.selector
    selector = asked.selector or None
    if own is not None:
        selector = f"({own}) AND ({asked.selector})" if asked.selector else own
    if not asked.waiting:
        return Query(incarnation.topic, selector, incarnation.floor), own
    waiting = await records.ask(records.waiting, incarnation)
    if waiting is None:
        raise InvalidRequest(
            "more than one request may read (records.read_bytes_max) would have to be read to tell "
            "what waits: look at all of its messages"
        )
    return Query(incarnation.topic, selector, waiting.start, standing=waiting.standing), own


async def _seen(visit: Visit, query: Query) -> MessagePage:
    """A page of messages that the visitor may see. Raises InvalidRequest for an unknown topic."""
    records = await visit.records()
    if not is_pattern(query.topic):
        sight = await sight_of(visit, [query.topic])
        return await records.ask(records.page, query, sight)
    known, sight = set[str](), Sight(None, frozenset())
    page = await records.ask(records.page, query, sight)
    for _ in range(ROUNDS):
        topics = {line.message.topic for line in page.lines} - known
        allowed = await sight_of(visit, topics)
        known |= topics
        if all(allowed.topic(topic) for topic in topics) and sight.topics is None:
            return page
        seen = (sight.topics or frozenset()) | (allowed.topics or frozenset())
        sight = Sight(seen, frozenset())
        page = await records.ask(records.page, query, sight)
        if {line.message.topic for line in page.lines} <= seen:
            return page
    return page


async def _place(visit: Visit, since: str) -> int | None:
    """The sequence from which on is asked, as places in the log are said everywhere."""
    if not since:
        return None
    records = await visit.records()
    match place(since.replace(",", ""), time.time_ns() // 1_000):
        case AtSequence(sequence):
            return sequence
        case AtTime(at):
            return await records.ask(records.place, at)
        case AtEnd():
            return (await records.ask(records.as_of)).sequence


def _sequence(text: str) -> int:
    digits = text.replace(",", "").replace("\N{THIN SPACE}", "")
    if not digits.isascii() or not digits.isdigit() or len(digits) > DIGITS_MAX:
        raise InvalidRequest(f"'{text[:40]}' is no sequence: a whole number such as 120417")
    return int(digits)


# The life of one.


async def show_life(visit: Visit) -> Response:
    """The page with all facts that are known of a message."""
    sequence = _sequence(visit.request.path_params["sequence"])
    began = time.monotonic()
    life = await _life(visit, sequence)
    if life is None:
        records = await visit.records()
        as_of = await records.ask(records.as_of)
        absent = {"sequence": sequence, "head": as_of.sequence}
        return visit.page("message_absent.html", "messages", absent, 404)
    values = {
        "life": life,
        "timeline": life_timeline.timeline(life, time.time_ns() // 1_000),
        "kin": [(life_timeline.kin_words(one), one) for one in life.kin],
        "took_ms": (time.monotonic() - began) * 1_000,
    }
    return visit.page("message.html", "messages", values)


async def _life(visit: Visit, sequence: int) -> MessageLife | None:
    records = await visit.records()
    claimed = await records.ask(records.claimed, sequence)
    if claimed is None:
        return None
    sight = await sight_of(visit, [claimed.topic], claimed.subscriptions)
    if not sight.topic(claimed.topic):
        return None
    life = await records.ask(records.life, sequence, Sight(None, sight.subscriptions))
    if life is None:
        return None
    of_kin = await sight_of(visit, [one.topic for one in life.kin])
    kin = tuple(one for one in life.kin if of_kin.topic(one.topic))
    return with_held(replace(life, kin=kin), await _held(visit, life))


async def _held(visit: Visit, life: MessageLife) -> list[Held]:
    """Deliveries of it in flight now; subscriptions whose question is refused are skipped."""
    waiting = [lane.subscription for lane in life.lanes if lane.state is StayState.WAITING]
    found: list[Held] = []
    for name in waiting[:ASKED_MAX]:
        try:
            asked = {"from": life.message.sequence, "count": 1}
            answer = await visit.ask(Verb.HELD, Entity.SUBSCRIPTION, name, asked)
        except (Refused, Unanswered):
            continue
        rows = (dict(zip(answer["attributeNames"], one, strict=True)) for one in answer["results"])
        found += [_as_held(name, row) for row in rows]
    return found


def _as_held(name: str, row: Mapping[str, Any]) -> Held:
    at = row["delivered_at"]
    us = None if at is None else int(at) * 1_000
    return Held(name, int(row["sequence"]), str(row["consumer"]), us, int(row["delivery_count"]))


PAGES = (
    Page("/messages", show),
    Page("/messages/{sequence}", show_life),
)
