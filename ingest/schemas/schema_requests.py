"""Requests to `$management` about schemas: set a version, look at them, drop one.

Rule 1: a user who may `manage` all topics of a pattern may set and drop its schema; a user who may
        `consume` from all of them, or manage them, may read it.
Rule 2: a version is checked before it is set, by the process that checks messages: a version that
        can't be read, has no columns, or may not follow the one before is refused with all reasons.
"""

import asyncio
from typing import TypeAlias

from distributary.ingest.commit.group_log import Log
from distributary.ingest.runtime import clock
from distributary.ingest.runtime.settings import SchemaSettings
from distributary.ingest.schemas.check_messages import CheckVersion
from distributary.ingest.schemas.schema_directory import SchemaOfTopic
from distributary.ingest.schemas.validator import Validator
from distributary.ingest.security.access import Access
from distributary.pipeline.codec.amqp_types import Map, Timestamp, Value
from distributary.pipeline.codec.amqp_writer import Writable
from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.management.management_messages import (
    ABSENT,
    CONFLICT,
    NO_CONTENT,
    OK,
    Answer,
    Request,
    Verb,
    refused,
)
from distributary.pipeline.model.amqp_error import AmqpError
from distributary.pipeline.schemas.schema_choice import pattern, stand_in
from distributary.pipeline.schemas.schema_text import DROPPED, columns_of, text_of, version_of
from distributary.pipeline.schemas.schema_version import (
    Compatibility,
    Format,
    Framing,
    SchemaVersion,
    Validation,
)
from distributary.pipeline.tables.recovery.standpoints import SchemaEvent

#: A schema's attributes.
Row: TypeAlias = dict[str, Writable]


class SchemaRequests:
    """Answers requests about schemas. Raises InvalidRequest for a wrong request."""

    def __init__(
        self, access: Access, schemas: Validator, settings: SchemaSettings, log: Log
    ) -> None:
        self._access, self._schemas, self._settings = access, schemas, settings
        self._directory, self._log = schemas.directory, log

    async def answer(self, user: str, request: Request) -> Answer:
        """Return the answer, when the state that it reports is durable."""
        topic = request.name.removeprefix("topic://")
        pattern(topic)
        reads = request.verb is Verb.READ
        if why := self._forbidden(user, topic, Verb.READ if reads else Verb.UPDATE):
            return refused(why)
        match request.verb:
            case Verb.READ:
                return self._read(topic, request)
            case Verb.UPDATE:
                return await self._set(user, topic, request)
            case _:
                return await self._drop(user, topic)

    def _forbidden(self, user: str, topic: str, verb: Verb) -> AmqpError | None:
        why = self._access.amqp_error(user, verb, stand_in(topic))
        if why is None:
            return None
        text = f"user '{user}' has no permission for the schema of all topics of '{topic}'"
        return AmqpError(why.condition, text)

    # Reading.

    def _read(self, topic: str, request: Request) -> Answer:
        """Answer with the version in force, or the one asked for, and all events."""
        found = self._directory.get(topic)
        if found is None:
            return Answer(ABSENT, f"there is no schema for '{topic}'")
        version = request.attributes.get("version")
        events = [one for one in found.events if one.record.text != DROPPED]
        text = found.text
        if version is not None:
            texts = [one.record.text for one in events]
            text = next((one for one in texts if _version(topic, one).version == version), "")
            if not text:
                return Answer(ABSENT, f"the schema of '{topic}' has no version {version!r}")
        history: list[Value] = [Map(tuple(_event(one).items())) for one in found.events]
        row: Row = {"name": topic, "history": history}
        if text:
            row |= _said(_version(topic, text)) | {"columns": columns_of(text)}
        return Answer(OK, "the schema", row)

    # Changing.

    async def _set(self, user: str, topic: str, request: Request) -> Answer:
        before = self._directory.get(topic)
        number = 1 if before is None else before.next_version
        text_before = before.text if before is not None else ""
        wanted = _wanted(topic, number, request, before.current if before is not None else None)
        most = self._settings.versions_max
        if self._directory.count >= most:
            text = f"there are {most} versions of schemas (schemas.versions_max)"
            return Answer(CONFLICT, text)
        check = CheckVersion(topic, text_of(wanted, ""), text_before)
        answer = await self._schemas.check_version(check)
        if answer.error:
            raise InvalidRequest(answer.error)
        reasons: list[Value] = list(answer.problems)
        if request.attributes.get("check") is True:
            text = "it may not follow" if reasons else "it may follow"
            body: Row = {"allowed": not reasons, "reasons": reasons, "columns": answer.columns}
            body |= {"framing": wanted.framing.value, "cloud_events": wanted.cloud_events}
            return Answer(OK, f"{text} the schema of '{topic}'", body)
        if reasons:
            why = "; ".join(answer.problems)
            text = f"version {number} of '{topic}' isn't {wanted.compatibility} compatible: {why}"
            return Answer(CONFLICT, text)
        now = self._directory.get(topic)
        if (1 if now is None else now.next_version) != number:
            return Answer(CONFLICT, f"another user has set a schema of '{topic}': look again")
        text = text_of(wanted, answer.columns)
        await self._record(topic, text, user)
        row = {"name": topic, **_said(wanted), "columns": answer.columns}
        return Answer(OK, f"the schema of '{topic}' has version {number}", row)

    async def _drop(self, user: str, topic: str) -> Answer:
        try:
            self._directory.require(topic)
        except InvalidRequest as error:
            return Answer(ABSENT, str(error))
        await self._record(topic, DROPPED, user)
        return Answer(NO_CONTENT, f"the schema of '{topic}' has been dropped")

    async def _record(self, topic: str, text: str, user: str) -> None:
        """Set or drop, and wait until that is durable."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def durable() -> None:
            if not done.done():
                done.set_result(None)

        self._directory.record(topic, text, user, clock.now(), durable)
        self._log.flush()
        await done


def _wanted(
    topic: str, number: int, request: Request, before: SchemaVersion | None
) -> SchemaVersion:
    """Return the version that is asked for. Settings that the request doesn't name stay as before:
    a new definition doesn't end the validation."""
    said: dict[str, object] = {}
    if before is not None:
        said |= {
            "compatibility": before.compatibility.value,
            "validate": before.validation.value,
            "framing": before.framing.value,
            "cloud_events": before.cloud_events,
        }
    said |= request.attributes
    try:
        return SchemaVersion(
            topic=topic,
            version=number,
            format=Format(str(said["format"])),
            definition=str(said["definition"]),
            message=str(said.get("message", "")),
            compatibility=Compatibility(str(said.get("compatibility", Compatibility.BACKWARD))),
            validation=Validation(str(said.get("validate", Validation.OFF))),
            framing=Framing(str(said.get("framing", Framing.PLAIN))),
            registry_id=str(said.get("registry_id", "")),
            cloud_events=said.get("cloud_events") is True,
        )
    except ValueError as error:
        raise InvalidRequest(
            f"{error}: format is {', '.join(Format)}, compatibility {', '.join(Compatibility)}, "
            f"validate {', '.join(Validation)}, framing {', '.join(Framing)}"
        ) from None


def _version(topic: str, text: str) -> SchemaVersion:
    found = version_of(topic, text)
    assert found is not None, topic  # noqa: S101 - a drop is no version
    return found


def _said(version: SchemaVersion) -> dict[str, Value]:
    return {
        "version": version.version,
        "format": version.format.value,
        "definition": version.definition,
        "message": version.message,
        "compatibility": version.compatibility.value,
        "validate": version.validation.value,
        "framing": version.framing.value,
        "registry_id": version.registry_id,
        "cloud_events": version.cloud_events,
    }


def schema_row(found: SchemaOfTopic) -> dict[str, Value]:
    """Return a schema's row of a list, without definitions."""
    assert found.current is not None  # noqa: S101 - only schemas in force are listed
    last = found.events[-1]
    said = {name: one for name, one in _said(found.current).items() if name != "definition"}
    at = Timestamp(last.recorded_at // 1_000)
    return {"name": found.current.topic, **said, "by": last.record.by or None, "set_at": at}


def _event(event: SchemaEvent) -> dict[Value, Value]:
    version = version_of(event.record.topic, event.record.text)
    return {
        "event": "dropped" if version is None else "set",
        "version": None if version is None else version.version,
        "format": None if version is None else version.format.value,
        "compatibility": None if version is None else version.compatibility.value,
        "validate": None if version is None else version.validation.value,
        "floor": event.record.floor,
        "group": event.group,
        "by": event.record.by or None,
        "recorded_at": Timestamp(event.recorded_at // 1_000),
    }
