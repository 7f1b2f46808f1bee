"""Which log answers a request: a gateway's node speaks for all logs of its lake, and passes on what
is another one's.
"""

from distributary.ingest.management.entities import key_of, queue_of, topic_of
from distributary.ingest.net.link import Link
from distributary.ingest.net.relayed_link import Relays
from distributary.ingest.subscriptions.subscription_directory import SubscriptionDirectory
from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.log_names import MAIN, private_number
from distributary.pipeline.management.management_messages import (
    ABSENT,
    NOT_IMPLEMENTED,
    Answer,
    Entity,
    Request,
    Verb,
)
from distributary.pipeline.model.address import PATTERN_PREFIX, Destination, Kind
from distributary.pipeline.model.amqp_error import AmqpError
from distributary.pipeline.model.subscription import SubscriptionKey
from distributary.pipeline.model.topic_pattern import PatternStyle

#: Wildcards in the pattern of a schema.
_WILD = frozenset("*#")


class Whose:
    """Which logs a request is for."""

    def __init__(
        self, relays: Relays, directory: SubscriptionDirectory, style: PatternStyle
    ) -> None:
        self._relays, self._directory, self._style = relays, directory, style

    def logs(self, link: Link, request: Request) -> tuple[str, ...] | Answer:
        """The logs to be asked in turn, until one has what the request names; or why none is."""
        own, others = self._relays.logs
        there = others if private_number(own) is not None else (own or MAIN, *others)
        if request.log and request.log not in there:
            known = ", ".join(sorted(there))
            return Answer(ABSENT, f"there is no log '{request.log}'; there are {known}")
        if not others or link.attach.relayed is not None:
            return (own,)
        if request.log:
            return (request.log,)
        if request.verb is Verb.QUERY or request.entity is Entity.NODE:
            return (own,)
        try:
            word = self._word(request)
        except InvalidRequest:
            return (own,)  # it says what is wrong
        if word is None:
            return (own,)
        if isinstance(word, SubscriptionKey):
            return (own,) if word in self._directory else (*others, own)
        log = self._relays.log_of(word)
        if log is None:
            text = f"the topics of '{request.name}' may be in several logs: name one of them in the"
            return Answer(NOT_IMPLEMENTED, f"{text} application property 'log'")
        return (log,)

    def _word(self, request: Request) -> str | SubscriptionKey | None:
        """The word of the log for what a request is about; or a subscription that may be in any;
        None where it is nothing that could be. Raises InvalidRequest."""
        found: Destination | AmqpError
        match request.entity:
            case Entity.TOPIC:
                found = topic_of(request.name, self._style)
            case Entity.QUEUE:
                found = queue_of(request.name)
            case Entity.SCHEMA:
                name = request.name.removeprefix("topic://")
                return PATTERN_PREFIX + name if _WILD & set(name.split(".")) else name
            case _:
                key = key_of(request.entity, request.name)
                if isinstance(key, AmqpError):
                    return None
                if key.queue:
                    kind = Kind.QUEUE if key.durable else Kind.TEMPORARY_QUEUE
                    return Destination(kind, key.name).topic
                if request.verb is not Verb.CREATE:
                    return key
                found = topic_of(str(request.attributes["topic"]), self._style)
        return None if isinstance(found, AmqpError) else found.topic
