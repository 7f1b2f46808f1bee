"""Operations on a subscription from its page: first a page shows the effects in numbers, then the
gateway does it, as the user who has logged in."""

import asyncio
from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from distributary.ingest.cli.options.command_options import policy_of
from distributary.ingest.console.asking import log_preview
from distributary.ingest.console.insight import subscription_facts
from distributary.ingest.console.insight.policy_effects import PolicyEffects, policy_effects
from distributary.ingest.console.insight.previews import (
    OFFERS,
    Found,
    Offer,
    effects,
    is_typed,
)
from distributary.ingest.console.pages.page import Page
from distributary.ingest.console.pages.viewer_rights import may_count
from distributary.ingest.console.web.visit import Visit
from distributary.jobs.client.management_client import Refused
from distributary.pipeline.errors import InvalidRequest, StoreError
from distributary.pipeline.management.management_messages import Entity, Verb

_SUBSCRIPTION = Entity.SUBSCRIPTION
#: Operations that need no argument: without one they concern all.
_READY_EMPTY = frozenset({Offer.REDRIVE, Offer.CLOSE})


async def show(visit: Visit) -> Response:
    """Show the effects of an operation."""
    offer, name = _meant(visit)
    row = await visit.ask(Verb.READ, _SUBSCRIPTION, name)
    shown = OFFERS[offer]
    said = visit.asked(shown.field) if shown.field else ""
    asked = shown.field in visit.request.query_params
    if offer is Offer.SKIP and not asked:
        said, asked = "now", True
    if offer is Offer.POLICY and not asked:
        said = _policy_text(row["policy"])
    found, why = await _found(visit, offer, row, said if asked else "")
    ready = not why and (asked or not shown.field or offer in _READY_EMPTY)
    values = {
        "offer": offer.value,
        "shown": shown,
        "row": row,
        "name": name,
        "said": said,
        "why": why,
        "typed": is_typed(offer, found),
        "ready": ready,
        "effects": effects(offer, row, found) if ready else [],
    }
    here = "queues" if name.startswith("queue/") else "subscriptions"
    return visit.page("operation.html", here, values, 400 if why else 200)


async def perform(visit: Visit) -> Response:
    """Do it, and show the gateway's answer."""
    offer, name = _meant(visit)
    form = await visit.form()
    shown = OFFERS[offer]
    said = form.get(shown.field, "") if shown.field else ""
    typed = shown.typed or (offer is Offer.POLICY and (await _policy(visit, name, said)).drops)
    if typed and form.get("typed") != name:
        raise InvalidRequest(f"nothing was done: {name} has to be typed where the page asks for it")
    attributes = _attributes(offer, said)
    done = await visit.ask(shown.verb, _SUBSCRIPTION, name, attributes)
    visit.session.account.sweeps.stale()
    sentence = str(done["said"])
    if offer is Offer.CLOSE:
        sentence += f"; {done.get('links', 0)} links have ended"
    gone = offer is Offer.DELETE
    to = "/queues" if name.startswith("queue/") else "/subscriptions"
    return visit.done(f"{sentence}.", to if gone else visit.link("/subscription", {"id": name}))


def _meant(visit: Visit) -> tuple[Offer, str]:
    word, name = visit.request.path_params["offer"], visit.asked("id")
    if word not in set(Offer) or not name:
        raise InvalidRequest("the address names no operation of a subscription")
    return Offer(word), name


def _attributes(offer: Offer, said: str) -> dict[str, object]:
    match offer:
        case Offer.REWIND | Offer.SKIP:
            if not said.strip():
                raise InvalidRequest("it isn't said to which place")
            return {"to": said.strip()}
        case Offer.REDRIVE:
            return {"max": _most(said)}
        case Offer.POLICY:
            return {"policy": own_policy(said)}
        case Offer.CLOSE if said:
            return {"consumer": said}
        case Offer.DELETE:
            return {"force": True}
    return {}


def _most(said: str) -> int | None:
    text = said.strip()
    if not text:
        return None
    if not (text.isascii() and text.isdigit()) or len(text) > 15 or not int(text):
        raise InvalidRequest(f"'{text}' is no number of messages")
    return int(text)


def own_policy(said: str) -> dict[str, object]:
    """A policy by its lines of KEY=VALUE; a key without a value isn't in it. Raises InvalidRequest
    for a line that is none."""
    found = policy_of(tuple(line for line in said.splitlines() if line.strip()))
    return {key: value for key, value in found.items() if value is not None}


async def _policy(visit: Visit, name: str, said: str) -> PolicyEffects:
    row = await visit.ask(Verb.READ, _SUBSCRIPTION, name)
    return policy_effects(row, own_policy(said))


def _policy_text(policy: Mapping[str, object]) -> str:
    return "\n".join(
        f"{key}={str(value).lower() if isinstance(value, bool) else value}"
        for key, value in policy.items()
    )


async def _found(visit: Visit, offer: Offer, row: dict[str, Any], said: str) -> tuple[Found, str]:
    """Facts for the preview, and the reason in a sentence if there are none."""
    try:
        match offer:
            case Offer.REWIND | Offer.SKIP if said:
                return await _placed(visit, row, said), ""
            case Offer.REDRIVE:
                letters = subscription_facts.dead_letter_queue(row)
                dead = None if letters is None else await _waiting(visit, letters)
                return Found(dead=dead, letters=letters, most=_most(said)), ""
            case Offer.CLOSE:
                if said and all(said != one["name"] for one in row["links"]):
                    return Found(), f"It has no consumer '{said}'."
                return Found(consumer=said), ""
            case Offer.POLICY:
                return Found(policy=policy_effects(row, own_policy(said))), ""
    except InvalidRequest as error:
        return Found(), f"{error}."
    return Found(), ""


async def _placed(visit: Visit, row: Mapping[str, Any], said: str) -> Found:
    """A place, with numbers where the gateway's table can be read, and the visitor may know how
    much is in it."""
    topic = str(row["topic"])
    try:
        records = await visit.records()
        found = await asyncio.to_thread(log_preview.find, records.log, topic, said)
    except StoreError:
        return Found(said, None, None)
    return Found(said, found.sequence, found.messages if await may_count(visit, topic) else None)


async def _waiting(visit: Visit, letters: str) -> int | None:
    try:
        return int((await visit.ask(Verb.READ, Entity.QUEUE, letters))["backlog"])
    except Refused as error:
        return 0 if error.status == 404 else None


PAGES = (Page("/do/{offer}", show), Page("/do/{offer}", perform, "POST"))
