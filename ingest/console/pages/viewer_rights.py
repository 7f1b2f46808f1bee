"""The visitor's rights to see records and to operate. The gateway is asked in the visitor's
name."""

from collections.abc import Iterable, Mapping
from typing import Final

from distributary.ingest.console.log_rows.sight import Sight
from distributary.ingest.console.web.visit import Visit
from distributary.pipeline.management.management_messages import Entity, Verb
from distributary.pipeline.model.topic_pattern import is_pattern

#: Names in one question: fewer than management.query_count_max is by default.
NAMES_TOGETHER: Final = 50
#: Names that are asked for, for one page; further ones aren't shown.
NAMES_MAX: Final = 1_000


#: Names that only permissions for every topic, and for every queue, allow.
EVERY: Final = ("*every topic*", "queue://*every queue*")


async def manages_all(visit: Visit) -> bool:
    """Whether the visitor may manage every topic and queue. Raises Unanswered and Refused."""
    said = await visit.ask(Verb.READ, Entity.NODE, "self", {"manage": list(EVERY)})
    return len(said["manage"]) == len(EVERY)


async def may_count(visit: Visit, topic: str) -> bool:
    """Whether the visitor may know how many messages a topic has: needs the right to consume from
    it or to manage it; for a pattern, which has many topics, to manage all. Raises Unanswered and
    Refused."""
    if is_pattern(topic):
        return await manages_all(visit)
    names = {"consume": [topic], "manage": [topic]}
    said = await visit.ask(Verb.READ, Entity.NODE, "self", names)
    return bool(said["consume"] or said["manage"])


async def sight_of(
    visit: Visit, topics: Iterable[str], subscriptions: Mapping[str, str] | None = None
) -> Sight:
    """The topics that the visitor may consume from, and the subscriptions (each given with the
    topic that it claims) that they may see. Raises Unanswered and Refused."""
    consumed: set[str] = set()
    seen: set[str] = set()
    names = list(dict.fromkeys(topics))[:NAMES_MAX]
    for at in range(0, len(names), NAMES_TOGETHER):
        asked = {"consume": names[at : at + NAMES_TOGETHER]}
        consumed.update((await visit.ask(Verb.READ, Entity.NODE, "self", asked))["consume"])
    pairs = list((subscriptions or {}).items())[:NAMES_MAX]
    for at in range(0, len(pairs), NAMES_TOGETHER):
        some = {"see": dict(pairs[at : at + NAMES_TOGETHER])}
        seen.update((await visit.ask(Verb.READ, Entity.NODE, "self", some))["see"])
    return Sight(frozenset(consumed), frozenset(seen))
