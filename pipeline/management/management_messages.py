"""Requests to `$management` and their answers as messages, by AMQP Management where that applies.

A request names an operation and an entity in its application properties (`operation`, `type`,
`name`); a map in its body has the attributes. The answer has `statusCode`, `statusDescription` and
a map in its body.

Rule 1: a request must have a row in REQUESTS; the refusal of another one lists the rows.
Rule 2: nothing is guessed: an unknown attribute, or one of another type, is refused.
"""

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from distributary.pipeline.codec.amqp_codes import LISTS, MAPS, Kind
from distributary.pipeline.codec.amqp_types import Map, Timestamp, Value
from distributary.pipeline.codec.amqp_writer import Writable, compound, section, write
from distributary.pipeline.codec.quoting import quoted
from distributary.pipeline.codec.sections import Body, Identifier, Message, Typed
from distributary.pipeline.model import amqp_error
from distributary.pipeline.model.amqp_error import AmqpError

#: The node's address.
NODE = "$management"
#: The node's own type and name in AMQP Management; ours are `node` and `self`.
STANDARD_TYPE = "org.amqp.management"

#: Characters of an answer's sentence: a name in it may be as long as a request.
DESCRIPTION_MAX = 1_024

OK, CREATED, NO_CONTENT = 200, 201, 204
BAD_REQUEST, FORBIDDEN, ABSENT, CONFLICT = 400, 403, 404, 409
FAILED, NOT_IMPLEMENTED = 500, 501

#: A refusal's condition -> its status; any other condition is FAILED.
STATUS = {
    amqp_error.INVALID_FIELD: BAD_REQUEST,
    amqp_error.UNAUTHORIZED: FORBIDDEN,
    amqp_error.NOT_FOUND: ABSENT,
    amqp_error.LOCKED: CONFLICT,
    amqp_error.LIMIT_EXCEEDED: CONFLICT,
    amqp_error.PRECONDITION_FAILED: CONFLICT,
    amqp_error.NOT_IMPLEMENTED: NOT_IMPLEMENTED,
}


class Entity(StrEnum):
    """The types of managed entities."""

    SUBSCRIPTION = "subscription"  #: named by its id, e.g. `global/billing`
    QUEUE = "queue"  #: named by its name, or as `queue://name`
    TOPIC = "topic"
    SCHEMA = "schema"  #: of a topic, or of the topics of a pattern, by which it is named
    TRANSACTION = "transaction"  #: a prepared one, named by its global id
    NODE = "node"  #: the gateway itself, named `self`


class Verb(StrEnum):
    """The operations, as they stand in requests."""

    CREATE = "CREATE"
    READ = "READ"
    UPDATE = "UPDATE"
    DELETE = "DELETE"
    QUERY = "QUERY"  #: list the entities of a type; needs no name
    PAUSE = "PAUSE"
    RESUME = "RESUME"
    PURGE = "PURGE"
    REWIND = "REWIND"
    SKIP = "SKIP"
    REDRIVE = "REDRIVE"
    CLOSE = "CLOSE"
    ACQUIRE = "ACQUIRE"  #: get sequences in turn, without the messages
    SETTLE = "SETTLE"
    OWED = "OWED"  #: the messages that a subscription is owed now
    HELD = "HELD"  #: the messages that its consumers hold, and since when
    HINT = "HINT"  #: give the messages that its selector matches, so that others needn't be read
    PREPARE = "PREPARE"  #: give a declared transaction a global id: its commit prepares it
    COMMIT = "COMMIT"  #: a prepared transaction
    ROLLBACK = "ROLLBACK"  #: a prepared transaction
    GET_TYPES = "GET-TYPES"
    GET_OPERATIONS = "GET-OPERATIONS"


#: The largest number in a request.
NUMBER_MAX = 2**63 - 1


class Attribute(msgspec.Struct, frozen=True):
    """An attribute of a request: its types, and whether it is required. Numbers aren't negative and
    have 63 bits at most, like sequences and times."""

    types: tuple[type, ...]
    required: bool = False

    def fits(self, value: Value) -> bool:
        if isinstance(value, bool):
            return bool in self.types
        if isinstance(value, Timestamp):
            return Timestamp in self.types
        return isinstance(value, self.types) and not (
            isinstance(value, int) and not 0 <= value <= NUMBER_MAX
        )


Attributes = dict[str, Attribute]

_TEXT, _FLAG, _NUMBER = Attribute((str,)), Attribute((bool,)), Attribute((int,))
#: A subscription's own policy; null for none.
_POLICY = Attribute((Map, type(None)))
_PLACE = Attribute((int, str, Timestamp))
_FORCE: Attributes = {"force": _FLAG}
_QUERY: Attributes = {
    "attributeNames": Attribute((list,)),
    "offset": _NUMBER,
    "count": _NUMBER,
    "from": _TEXT,  #: the `next` of the part before
}
#: Attributes of the gateway's READ: destinations and subscriptions, to ask for the user's rights.
_MAY: Attributes = {
    "consume": Attribute((list,)),
    "manage": Attribute((list,)),
    "see": Attribute((Map,)),
}
_DEEDS: dict[Verb, Attributes] = {
    Verb.READ: {},
    Verb.UPDATE: {"policy": Attribute((Map, type(None)), required=True)},
    Verb.DELETE: _FORCE,
    Verb.QUERY: _QUERY,
    Verb.PAUSE: {},
    Verb.RESUME: {},
    Verb.PURGE: {},
    Verb.REWIND: {"to": Attribute(_PLACE.types, required=True)},
    Verb.SKIP: {"to": _PLACE},
    Verb.CLOSE: {"consumer": _TEXT},
    Verb.ACQUIRE: {
        "holder": Attribute((str,), required=True),
        "max": _NUMBER,
        "wait_ms": _NUMBER,
        "linger_ms": _NUMBER,
        "keep": _TEXT,
        "incarnation": _NUMBER,
    },
    Verb.SETTLE: {
        "holder": Attribute((str,), required=True),
        "sequences": Attribute((str,), required=True),
        "outcome": _TEXT,
        "failed": _FLAG,
        "undeliverable": _FLAG,
    },
    Verb.OWED: {},
    Verb.HELD: {"from": _NUMBER, "count": _NUMBER},
}

#: The operations of each type, and their attributes.
REQUESTS: dict[Entity, dict[Verb, Attributes]] = {
    Entity.SUBSCRIPTION: {
        **_DEEDS,
        Verb.CREATE: {
            "topic": Attribute((str,), required=True),
            "shared": _FLAG,
            "selector": _TEXT,
            "no_local": _FLAG,
            "policy": _POLICY,
            "since": _PLACE,
            "from_what_is_there": _FLAG,
        },
        Verb.HINT: {
            "topic": Attribute((str,), required=True),
            "selector": Attribute((str,), required=True),
            "start": Attribute((int,), required=True),
            "stop": Attribute((int,), required=True),
            "matches": Attribute((bytes,), required=True),
        },
        Verb.REDRIVE: {"max": _NUMBER},
    },
    Entity.QUEUE: {
        **_DEEDS,
        Verb.CREATE: {"policy": _POLICY},
        Verb.REDRIVE: {"max": _NUMBER, "subscription": _TEXT},
    },
    Entity.TOPIC: {Verb.CREATE: {}, Verb.READ: {}, Verb.QUERY: _QUERY, Verb.DELETE: _FORCE},
    Entity.SCHEMA: {
        Verb.UPDATE: {
            "format": Attribute((str,), required=True),
            "definition": Attribute((str,), required=True),
            "message": _TEXT,
            "compatibility": _TEXT,
            "validate": _TEXT,
            "framing": _TEXT,
            "registry_id": _TEXT,
            "cloud_events": _FLAG,
            "check": _FLAG,
        },
        Verb.READ: {"version": _NUMBER},
        Verb.QUERY: _QUERY,
        Verb.DELETE: {},
    },
    Entity.TRANSACTION: {
        Verb.PREPARE: {"transaction": Attribute((bytes,), required=True)},
        Verb.COMMIT: {**_FORCE, "user": _TEXT},
        Verb.ROLLBACK: {**_FORCE, "user": _TEXT},
        Verb.READ: {"user": _TEXT},
        Verb.QUERY: _QUERY,
    },
    Entity.NODE: {Verb.READ: _MAY, Verb.GET_TYPES: {}, Verb.GET_OPERATIONS: {}},
}

#: Operations about no particular entity.
_NAMELESS = frozenset({Verb.QUERY, Verb.GET_TYPES, Verb.GET_OPERATIONS})


class Request(msgspec.Struct, frozen=True):
    """A request; `name` is empty where none is needed."""

    verb: Verb
    entity: Entity
    name: str
    attributes: Mapping[str, Value]
    log: str = ""  #: the log of a lake that it asks; empty: the log of the named entity


class Answer(msgspec.Struct, frozen=True):
    """The answer to a request: a status, a sentence, and the result."""

    status: int
    description: str
    body: Mapping[str, Writable] = msgspec.field(default_factory=dict)
    log: str | None = None  #: its log, if it isn't the gateway's own; empty: several logs


def refused(why: AmqpError) -> Answer:
    """Return the answer that refuses a request, with the reason."""
    return Answer(STATUS.get(why.condition, FAILED), why.description)


def parse(message: Message) -> Request | Answer:
    """Parse a request; return an error's answer for one that can't be read."""
    said = {name: typed.value for name, typed in message.application_properties.items()}
    word = said.get("operation")
    if not isinstance(word, str) or word.upper() not in set(Verb):
        known = ", ".join(Verb)
        return Answer(
            BAD_REQUEST if word is None else NOT_IMPLEMENTED,
            f"the application property 'operation' is {quoted(word)}; it must be one of {known}",
        )
    verb = Verb(word.upper())
    entity = _entity(said, verb)
    if isinstance(entity, Answer):
        return entity
    known_attributes = REQUESTS[entity].get(verb)
    if known_attributes is None:
        there_are = ", ".join(REQUESTS[entity])
        return Answer(NOT_IMPLEMENTED, f"a {entity} has no operation {verb}; it has {there_are}")
    name = said.get("name", "")
    if verb not in _NAMELESS and (not isinstance(name, str) or not name):
        return Answer(BAD_REQUEST, f"{verb} needs the name of a {entity} in 'name', a string")
    attributes = _attributes(message.body)
    if isinstance(attributes, Answer):
        return attributes
    if verb is Verb.QUERY:  # the standard has these among the application properties
        for one in ("offset", "count"):
            if one in said:
                attributes.setdefault(one, said[one])
    wrong = _wrong(attributes, known_attributes, f"{verb} of a {entity}")
    log = said.get("log", "")
    if not isinstance(log, str):
        return Answer(BAD_REQUEST, f"'log' is {quoted(log)}; it must be the name of a log")
    return wrong or Request(verb, entity, str(name), attributes, log)


def _entity(said: Mapping[str, Value], verb: Verb) -> Entity | Answer:
    word = said.get("type")
    if verb is Verb.QUERY and (word is None or word == STANDARD_TYPE):
        word = said.get("entityType")
    if word == STANDARD_TYPE or (word is None and verb in (Verb.GET_TYPES, Verb.GET_OPERATIONS)):
        return Entity.NODE
    if isinstance(word, str) and word in set(Entity):
        return Entity(word)
    known = ", ".join(Entity)
    return Answer(
        BAD_REQUEST, f"the application property 'type' is {quoted(word)}; it must be one of {known}"
    )


def _attributes(body: Body) -> dict[str, Value] | Answer:
    """Return the map in the body; an empty one without a body."""
    if body.kind == "none" or (body.kind == "value" and body.value is None):
        return {}
    if body.kind != "value" or not isinstance(body.value, Map):
        return Answer(BAD_REQUEST, "the body must be a map of attributes, or nothing")
    return texts(body.value)


def texts(said: Map) -> dict[str, Value] | Answer:
    """Return a map whose keys are texts, each once, or an error's answer."""
    found: dict[str, Value] = {}
    for key, value in said.pairs:
        if not isinstance(key, str) or key in found:
            return Answer(
                BAD_REQUEST, f"{quoted(key)} is no name of an attribute, or stands there twice"
            )
        found[key] = value
    return found


def _wrong(attributes: Mapping[str, Value], known: Attributes, what: str) -> Answer | None:
    """Return an error's answer for wrong attributes; None if they are right."""
    for name, value in attributes.items():
        if name not in known:
            there_are = ", ".join(known) or "none"
            return Answer(BAD_REQUEST, f"{what}: unknown attribute '{name}'; there are {there_are}")
        if not known[name].fits(value):
            kinds = " or ".join(_TYPE_WORDS[one] for one in known[name].types)
            return Answer(BAD_REQUEST, f"{what}: '{name}' is {quoted(value)}; it must be {kinds}")
    for name, attribute in known.items():
        if attribute.required and name not in attributes:
            return Answer(BAD_REQUEST, f"{what}: the attribute '{name}' is missing")
    return None


_TYPE_WORDS: dict[type, str] = {
    str: "a string",
    bool: "a boolean",
    int: "a number from 0 to 2^63 - 1",
    Timestamp: "a timestamp",
    Map: "a map",
    list: "a list",
    bytes: "a binary",
    type(None): "null",
}


def encoded(answer: Answer, to: str, correlation: Identifier | None, log: str = "") -> bytes:
    """Return the answer as a message's bytes; `log`: the gateway's own log in a lake."""
    status: dict[str, Writable] = {
        "statusCode": Typed("int", answer.status),
        "statusDescription": answer.description[:DESCRIPTION_MAX],
    }
    if of := log if answer.log is None else answer.log:
        status["log"] = of
    said = section(Kind.APPLICATION_PROPERTIES, _map(status))
    return answering(to, correlation) + said + section(Kind.VALUE, _map(answer.body))


def request_of(request: Request, number: int, reply_to: str) -> bytes:
    """Return a request as a message's bytes, with this message-id. Raises ValueError for a value
    that can't be written."""
    said: dict[str, Writable] = {"operation": request.verb.value, "type": request.entity.value}
    if request.name:
        said["name"] = request.name
    if request.log:
        said["log"] = request.log
    properties = [_identifier(number), None, NODE, None, reply_to]
    return b"".join(
        [
            section(Kind.PROPERTIES, compound(LISTS, [write(one) for one in properties])),
            section(Kind.APPLICATION_PROPERTIES, _map(said)),
            section(Kind.VALUE, _map(request.attributes)),
        ]
    )


def answering(to: str, correlation: Identifier | None) -> bytes:
    """Return the properties section of an answer to this address, with this correlation-id."""
    properties = [None, None, to or None, None, None, _identifier(correlation)]
    return section(Kind.PROPERTIES, compound(LISTS, [write(one) for one in properties]))


def _map(pairs: Mapping[str, Writable]) -> bytes:
    elements = [write(one) for pair in pairs.items() for one in pair]
    return compound(MAPS, elements)


def _identifier(correlation: Identifier | None) -> Writable:
    """Return an identifier with the type that it had in the request: a number is a ulong."""
    return Typed("ulong", correlation) if isinstance(correlation, int) else correlation
