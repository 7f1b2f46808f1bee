"""Which log answers a request: a gateway's node speaks for all logs of its lake, and passes on what
is another one's.
"""

import msgspec

from distributary.ingest.management.entities import key_of, queue_of, topic_of
from distributary.ingest.net.link import Link
from distributary.ingest.net.relayed_link import Relays
from distributary.ingest.subscriptions.subscription_directory import SubscriptionDirectory
from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.log_names import MAIN
from distributary.pipeline.management.answers_of_logs import LOOKING, is_for_all
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


class All(msgspec.Struct, frozen=True):
    """Each of these logs is asked, and they answer together."""

    logs: tuple[str, ...]


class Whose:
    """Which logs a request is for."""

    def __init__(
        self, relays: Relays, directory: SubscriptionDirectory, style: PatternStyle
    ) -> None:
        self._relays, self._directory, self._style = relays, directory, style

    def logs(self, link: Link, request: Request) -> tuple[str, ...] | All | Answer:
        """The logs to be asked in turn, until one has what the request names; or all that are
        asked; or why none is."""
        own, others = self._relays.logs
        if request.log and request.log not in (own or MAIN, *others):
            known = ", ".join(sorted((own or MAIN, *others)))
            return Answer(ABSENT, f"there is no log '{request.log}'; there are {known}")
        if not others:
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
        relayed = link.attach.relayed is not None  # another gateway knows no better
        if not isinstance(word, SubscriptionKey):
            logs = self._relays.logs_of(word)
        elif (found := self._directory.get(word)) is not None:
            logs = self._relays.beside(found.definition.topic) or (own,)
        else:
            return (own,) if relayed else (*others, own)
        if len(logs) > 1:
            return self._several(request, logs, relayed=relayed)
        return (own,) if relayed else logs

    def _several(
        self, request: Request, logs: tuple[str, ...], *, relayed: bool
    ) -> tuple[str, ...] | All | Answer:
        """What the request names lies in several logs at once."""
        own, _ = self._relays.logs
        if request.verb in LOOKING:
            return (own,) if relayed or own in logs else logs
        if is_for_all(request) and not relayed:
            return All(logs)
        text = f"'{request.name}' is in the logs {', '.join(logs)}: name one of them in the"
        return Answer(NOT_IMPLEMENTED, f"{text} application property 'log'")

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
