"""Check that the gateway detects duplicates where a query publishes. It needs Proton."""

from distributary.jobs.client.management_client import Client, Gateway, Refused
from distributary.jobs.publishing.sink_choices import SinkChoices
from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.management.management_messages import Entity, Verb

QUEUE = "queue://"
#: The keys of a topic's policy: either one turns detection of duplicates on.
WINDOW = ("duplicates_messages", "duplicates_ms")


def require_window(chosen: SinkChoices) -> None:
    """Raise InvalidRequest where the topic's policy has no window for duplicates. A topic that the
    user may not see, or that doesn't exist yet, is let through."""
    gateway = Gateway(
        chosen.address,
        chosen.user,
        chosen.password,
        chosen.authority,
        chosen.certificate,
        chosen.key,
    )
    is_queue = chosen.topic.startswith(QUEUE)
    entity = Entity.QUEUE if is_queue else Entity.TOPIC
    try:
        with Client(gateway) as client:
            said = client.ask(Verb.READ, entity, chosen.topic.removeprefix(QUEUE))
    except Refused:
        return
    policy = said.get("topic_policy")
    if policy is not None and not any(policy.get(key) for key in WINDOW):
        raise InvalidRequest(
            f"no duplicates are detected in {chosen.topic}: a batch that runs again would be "
            f"published twice. Give its policy {' or '.join(WINDOW)}, or say "
            "option('atLeastOnce', 'true')"
        )
