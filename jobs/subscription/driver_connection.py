"""The driver's end of a subscription: one connection to the gateway, kept alive while batches run.

It needs Proton; executors never import it.
"""

import secrets
import threading
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from distributary.jobs.client.lake_logs import addresses, log_of
from distributary.jobs.client.management_client import Client, Gateway, Refused, Unanswered
from distributary.jobs.session.job_settings import SubscriptionSettings
from distributary.jobs.subscription.choices import Choices
from distributary.jobs.subscription.log_location import LogLocation
from distributary.jobs.subscription.offset import Acquired, Offset
from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.management.management_messages import NUMBER_MAX, Entity, Verb
from distributary.pipeline.model.topic_pattern import is_pattern
from distributary.pipeline.schemas.schema_choice import chosen
from distributary.pipeline.schemas.schema_text import text_of
from distributary.pipeline.schemas.schema_version import (
    Compatibility,
    Format,
    Framing,
    SchemaVersion,
    Validation,
)
from distributary.pipeline.sequences.range_text import parts_of


class Lease:
    """A holder on a subscription (`ingest.management.leases`), and its requests.

    `holder` is its name, a new one if it is empty. In a lake any gateway is asked, and the log that
    has the subscription answers. Raises Unanswered and Refused, each a sentence, and InvalidRequest
    where several logs have it.
    """

    def __init__(self, choices: Choices, settings: SubscriptionSettings, holder: str = "") -> None:
        self.holder = holder or secrets.token_hex(8)
        self.incarnation, self.topic = 0, ""
        self._location: LogLocation | None = None
        self._choices, self._settings = choices, settings
        linger = choices.linger_seconds
        self._linger = settings.linger_seconds if linger is None else linger
        own = f"{choices.consumer}-{self.holder[:8]}-{secrets.token_hex(2)}"
        self._client = _connected(choices, settings, choices.container or own)
        try:
            self._lake_log = log_of(
                self._client, choices.subscription, choices.lake_log, "the option 'lakeLog'"
            )
        except BaseException:
            self._client.close()
            raise
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._lost: Unanswered | None = None
        threading.Thread(target=self._breathe, daemon=True, name="breath").start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def location(self) -> LogLocation:
        """Address and identity of the log: as of the last answer."""
        if self._location is None:
            self._location = LogLocation.of(self._ask(Verb.READ, {}))
        return self._location

    def begin(self, at: Offset) -> str:
        """Keep the held messages of the batch that ends at `at`, as far as possible, and give back
        the others; return those kept.

        No request is made when the log can't be reached from here, is another one, or when the
        batch is another gateway's: raises StoreError or InvalidRequest.
        """
        self.location.require(self._choices, at)
        said = {"keep": at.sequences, "incarnation": at.incarnation, "max": 0}
        kept = self._acquire(said).get("kept", "")
        return str(kept)

    def acquire(self, most: int, wait_ms: int) -> tuple[Acquired, bool]:
        """Acquire `most` messages at most, and return whether there may be more now; waits for the
        first ones."""
        answer = self._acquire({"max": most, "wait_ms": wait_ms})
        return Acquired.of(answer["acquired"]), bool(answer["more"])

    def settle(self, sequences: str, outcome: str = "accepted") -> int:
        """Settle those of these messages that it holds, durably; return how many."""
        if not sequences:
            return 0
        said = {"holder": self.holder, "sequences": sequences, "outcome": outcome}
        return int(self._ask(Verb.SETTLE, said)["settled"])

    def owed(self) -> dict[str, Any]:
        """Return the messages that the subscription is owed now."""
        return self._ask(Verb.OWED, {})

    def owed_before(self, stop: int) -> bool:
        """Return whether the subscription may be owed a message below `stop`: one that isn't read
        yet, that a consumer holds, or whose time is to come, counts, too."""
        texts = self.owed()["owed"].values()
        return any(run[0] < stop for text in texts for run in parts_of(text, NUMBER_MAX))

    def head(self) -> int:
        """Return the sequence that the next message will have."""
        return int(self._ask(Verb.READ, {})["head"])

    def schema(self) -> tuple[str, list[str]]:
        """Return the topic or pattern whose schema the subscription's topic has, and its versions
        as the log has them: the one in force, then the others that bodies may name. Raises
        InvalidRequest where there is none."""
        topic = str(self._ask(Verb.READ, {})["topic"])
        with self._lock:
            # The subscription's own log has answered: a missing log has none of its schemas.
            listed = self._client.listed(Entity.SCHEMA, self._lake_log)
            logs = {_name(one): one["log"] for one in listed.rows}
            name = None if is_pattern(topic) else chosen(logs, topic)
            if name is None:
                raise InvalidRequest(
                    f"the option 'typed' needs a schema of {topic}, and there is none: "
                    "`distributary schema set` sets one"
                )
            log = logs[name]
            held = self._client.ask(Verb.READ, Entity.SCHEMA, name, log=log)
            texts = [_text(name, held)]
            if held["format"] == Format.AVRO.value and held["registry_id"]:
                for version in range(1, int(held["version"])):
                    said = {"version": version}
                    older = self._client.ask(Verb.READ, Entity.SCHEMA, name, said, log)
                    texts.append(_text(name, older))
        return name, texts

    def close(self) -> None:
        """End the connection; its messages stay held for a while (`lingerSeconds`)."""
        self._closed.set()
        with self._lock:
            self._client.__exit__(None, None, None)

    def _acquire(self, said: Mapping[str, object]) -> dict[str, Any]:
        linger = {"holder": self.holder, "linger_ms": self._linger * 1_000}
        answer = self._ask(Verb.ACQUIRE, {**said, **linger})
        self.incarnation = int(answer["incarnation"])
        self.topic, self._location = str(answer["topic"]), LogLocation.of(answer)
        return answer

    def _ask(self, verb: Verb, said: Mapping[str, object]) -> dict[str, Any]:
        name = self._choices.subscription
        try:
            with self._lock:
                if self._lost is not None:
                    raise self._lost
                return self._client.ask(verb, Entity.SUBSCRIPTION, name, said, self._lake_log)
        except Refused as error:
            raise Refused(error.status, f"subscription {name}: {error}") from None
        except Unanswered as error:
            text = "start the query again when the gateway is there, and it goes on"
            raise Unanswered(f"subscription {name}: {error}; {text}") from None

    def _breathe(self) -> None:
        while not self._closed.wait(self._settings.breath_seconds):
            try:
                with self._lock:
                    if self._closed.is_set():
                        return
                    self._client.breathe()
            except Unanswered as error:
                self._lost = error
                return


def _connected(choices: Choices, settings: SubscriptionSettings, container: str) -> Client:
    """Connect to the named gateway, or to the first one of the lake that answers. Raises
    Unanswered."""
    found = [choices.address] if choices.address else addresses(choices.home, choices.lake_log)
    silent: Unanswered | None = None
    for address in found:
        gateway = Gateway(
            address,
            choices.user,
            choices.password,
            choices.authority,
            choices.certificate,
            choices.key,
            float(settings.answer_seconds),
        )
        try:
            return Client(gateway, container)
        except Unanswered as error:
            silent = silent or error
    raise silent or Unanswered("there is no gateway to ask")


def _name(row: Mapping[str, Any]) -> str:
    return str(row["name"])


def _text(name: str, said: Mapping[str, Any]) -> str:
    """Return a version as the log has it, made of the gateway's answer."""
    return text_of(
        SchemaVersion(
            topic=name,
            version=int(said["version"]),
            format=Format(str(said["format"])),
            definition=str(said["definition"]),
            message=str(said["message"]),
            compatibility=Compatibility(str(said["compatibility"])),
            validation=Validation(str(said["validate"])),
            framing=Framing(str(said["framing"])),
            registry_id=str(said["registry_id"]),
            cloud_events=bool(said["cloud_events"]),
        ),
        str(said["columns"]),
    )
