"""Making subscriptions and queues, and ending a topic: the effects are shown in numbers before."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace

from starlette.responses import Response

from distributary.ingest.console.asking import log_preview
from distributary.ingest.console.insight.spoken_numbers import messages, number
from distributary.ingest.console.pages.operation_pages import own_policy
from distributary.ingest.console.pages.page import Page
from distributary.ingest.console.pages.viewer_rights import may_count
from distributary.ingest.console.web.templates import link
from distributary.ingest.console.web.visit import Visit
from distributary.pipeline.errors import InvalidRequest, StoreError
from distributary.pipeline.management.management_messages import Entity, Verb
from distributary.pipeline.model.address import Kind, destination_of
from distributary.pipeline.model.amqp_error import AmqpError
from distributary.pipeline.model.topic_pattern import is_pattern

#: The fields of the form.
FIELDS = ("type", "id", "topic", "selector", "since", "policy")
#: Characters that make a name a pattern, in one style or another.
WILDCARDS = frozenset("*#>")


async def show(visit: Visit) -> Response:
    """The form; once it is filled in, the effects of creating."""
    said = {name: visit.asked(name).strip() for name in FIELDS}
    said["type"] = said["type"] if said["type"] in ("queue", "subscription") else "subscription"
    effects, why = list[str](), ""
    if said["id"]:
        try:
            effects = await _effects(visit, said)
        except InvalidRequest as error:
            why = f"{error}."
    here = "queues" if said["type"] == "queue" else "subscriptions"
    values = {"said": said, "effects": effects, "why": why}
    return visit.page("create.html", here, values, 400 if why else 200)


async def make(visit: Visit) -> Response:
    """Make it."""
    said = await visit.form()
    policy = own_policy(said.get("policy", "")) or None
    if said.get("type") == "queue":
        done = await visit.ask(Verb.CREATE, Entity.QUEUE, said.get("id", ""), {"policy": policy})
        to = link("/queue", {"name": said.get("id", "")})
    else:
        attributes = {
            "topic": said.get("topic", ""),
            "selector": said.get("selector") or None,
            "since": said.get("since") or None,
            "policy": policy,
        }
        name = said.get("id", "")
        done = await visit.ask(Verb.CREATE, Entity.SUBSCRIPTION, name, attributes)
        to = link("/subscription", {"id": name})
    visit.session.account.sweeps.stale()
    return visit.done(f"{done['said']}.", to)


async def _effects(visit: Visit, said: Mapping[str, str]) -> list[str]:
    policy = own_policy(said["policy"])
    found = [f"{key}: {value}, a policy of its own." for key, value in policy.items()]
    if said["type"] == "queue":
        return [f"The queue {said['id']} is made, empty.", *found]
    if not said["topic"]:
        raise InvalidRequest("a subscription has a topic")
    selector = f" that fits {said['selector']}" if said["selector"] else ""
    found.insert(0, f"{said['id']} is owed all that is published to {said['topic']}{selector}.")
    if not said["since"]:
        return [found[0], "It begins now: nothing waits for it yet.", *found[1:]]
    return [found[0], await _beginning(visit, said), *found[1:]]


async def _beginning(visit: Visit, said: Mapping[str, str]) -> str:
    """Its beginning in the past, and the messages that will wait for it, if they can be counted."""
    destination = destination_of(said["topic"], None, Kind.TOPIC)
    if isinstance(destination, AmqpError):
        raise InvalidRequest(destination.description)
    topic = destination.topic
    try:
        visit = replace(visit, placed=visit.console.records.log_of(topic) or "")
        records = await visit.records()
        at = await asyncio.to_thread(log_preview.find, records.log, topic, said["since"])
    except StoreError:
        return f"It begins at {said['since']}."
    begins = f"It begins at sequence {number(at.sequence)}"
    # Which wildcards mean something the gateway's settings say; the number would be of a plain
    # topic of that name.
    unsure = not is_pattern(topic) and not WILDCARDS.isdisjoint(topic)
    if unsure or not await may_count(visit, topic):
        return f"{begins}. How much waits for it then isn't told here."
    at_most = "at most " if said["selector"] else ""
    return f"{begins}: {at_most}{messages(at.messages)} wait."


async def show_topic_end(visit: Visit) -> Response:
    """Show the effects of ending a topic."""
    row = await visit.ask(Verb.READ, Entity.TOPIC, visit.asked("id"))
    return visit.page("delete_topic.html", "topics", {"row": row, "name": row["name"]})


async def end_topic(visit: Visit) -> Response:
    """End a topic: its durable subscriptions end."""
    name, form = visit.asked("id"), await visit.form()
    if form.get("typed") != name:
        raise InvalidRequest(f"nothing was done: {name} has to be typed where the page asks for it")
    done = await visit.ask(Verb.DELETE, Entity.TOPIC, name, {"force": True})
    visit.session.account.sweeps.stale()
    return visit.done(f"{done['said']}.", "/topics")


PAGES = (
    Page("/create", show),
    Page("/create", make, "POST"),
    Page("/do/delete-topic", show_topic_end),
    Page("/do/delete-topic", end_topic, "POST"),
)
