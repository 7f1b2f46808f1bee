"""Compatibility of schema versions: the modes, and Avro's rules of resolution.

Rule 1: a mode says which of two versions must read the other's bodies. Whether a version reads
        bodies of another one is one question for each format; a mode asks it in one direction or
        in both.
Rule 2: a version is compared with the one before it (Confluent: not transitive).
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final, TypeAlias, cast

from distributary.pipeline.codec.quoting import quoted
from distributary.pipeline.schemas.json_columns import parsed
from distributary.pipeline.schemas.schema_version import Compatibility, Format, SchemaVersion
from distributary.pipeline.schemas.typed_row import pointer

Node: TypeAlias = dict[str, object]
Path: TypeAlias = tuple[str, ...]


class Direction(StrEnum):
    """The version that must read bodies of the other one; the value begins a reason."""

    NEW_READS_OLD = "the new version must read what the old one allows"
    OLD_READS_NEW = "the old version must read what the new one allows"


#: Mode -> the directions that it demands (Confluent Schema Registry: "Compatibility types").
DIRECTIONS: Final[Mapping[Compatibility, frozenset[Direction]]] = {
    Compatibility.NONE: frozenset(),
    Compatibility.BACKWARD: frozenset({Direction.NEW_READS_OLD}),
    Compatibility.FORWARD: frozenset({Direction.OLD_READS_NEW}),
    Compatibility.FULL: frozenset(Direction),
}


def of_another_kind(old: SchemaVersion, new: SchemaVersion) -> str:
    """Return why these versions can't be compared: no body fits both. Empty if they can."""
    if old.format is not new.format:
        return f"the format is {new.format}, and was {old.format}"
    if old.framing is not new.framing:
        return f"the framing is {new.framing}, and was {old.framing}"
    if old.format is Format.PROTOBUF and old.message != new.message:
        return f"the message is {new.message}, and was {old.message}"
    if old.cloud_events != new.cloud_events:
        return "messages are CloudEvents in one version, and not in the other"
    return ""


#: Avro's promotions: written type -> types as which it may be read ("Schema Resolution").
PROMOTIONS: Final[Mapping[str, frozenset[str]]] = {
    "int": frozenset({"int", "long", "float", "double"}),
    "long": frozenset({"long", "float", "double"}),
    "float": frozenset({"float", "double"}),
    "string": frozenset({"string", "bytes"}),
    "bytes": frozenset({"bytes", "string"}),
}
_NAMED: Final = ("record", "enum", "fixed", "error")


def avro_problems(writer: str, reader: str) -> list[str]:
    """Return why the reader's schema can't read all bodies that the writer's allows; empty if it
    can. Both definitions have columns (`avro_columns`), so neither is recursive."""
    return list(_Resolution(parsed(writer), parsed(reader)).problems())


class _Resolution:
    """Two definitions, and the named types of each."""

    def __init__(self, writer: object, reader: object) -> None:
        self._writer, self._reader = writer, reader
        self._named: tuple[dict[str, Node], dict[str, Node]] = ({}, {})
        for said, named in zip((writer, reader), self._named, strict=True):
            _name_all(said, named)

    def problems(self) -> Iterable[str]:
        return self._differ(self._writer, self._reader, ())

    def _differ(self, writer: object, reader: object, at: Path) -> Iterable[str]:
        writer, reader = self._defined(writer, 0), self._defined(reader, 1)
        if isinstance(writer, list):
            for branch in writer:
                yield from self._differ(branch, reader, at)
        elif isinstance(reader, list):
            if not any(not [*self._differ(writer, branch, at)] for branch in reader):
                yield f"{_place(at)} may be {_kind(writer)}, which the reader's union doesn't have"
        else:
            yield from self._of_one(writer, reader, at)

    def _of_one(self, writer: object, reader: object, at: Path) -> Iterable[str]:
        written, read = _kind(writer), _kind(reader)
        if written != read or written not in (*_NAMED, "array", "map"):
            yield from _scalars_differ(writer, reader, at)
            return
        one, other = cast("Node", writer), cast("Node", reader)
        match written:
            case "array":
                yield from self._differ(one.get("items"), other.get("items"), (*at, "*"))
            case "map":
                yield from self._differ(one.get("values"), other.get("values"), (*at, "*"))
            case "enum":
                yield from _enums_differ(one, other, at)
            case "fixed":
                if one.get("size") != other.get("size") or _other_name(one, other):
                    yield f"{_place(at)} is fixed of another size or name"
                yield from _scalars_differ(one, other, at)
            case _:
                yield from self._records_differ(one, other, at)

    def _records_differ(self, writer: Node, reader: Node, at: Path) -> Iterable[str]:
        if _other_name(writer, reader):
            yield f"{_place(at)} is a record of another name"
        written = {str(one["name"]): one for one in cast("list[Node]", writer["fields"])}
        for field in cast("list[Node]", reader["fields"]):
            names = [str(field["name"]), *cast("list[str]", field.get("aliases", []))]
            found = next((written[name] for name in names if name in written), None)
            here = (*at, names[0])
            if found is not None:
                yield from self._differ(found["type"], field["type"], here)
            elif "default" not in field:
                yield f"{_place(here)} isn't written, and has no default"

    def _defined(self, said: object, side: int) -> object:
        """Return the named type if a name is given, else the type itself."""
        if isinstance(said, str):
            named = self._named[side]
            return named.get(said) or named.get(said.rpartition(".")[2]) or said
        if isinstance(said, dict) and isinstance(said.get("type"), dict | list):
            return self._defined(said["type"], side)
        return said


def _name_all(said: object, named: dict[str, Node]) -> None:
    match said:
        case list():
            for one in said:
                _name_all(one, named)
        case dict():
            if said.get("type") in _NAMED:
                named.setdefault(str(said.get("name")).rpartition(".")[2], cast("Node", said))
                named.setdefault(str(said.get("name")), cast("Node", said))
            for one in said.get("fields") or []:
                _name_all(one.get("type"), named)
            for key in ("items", "values", "type"):
                _name_all(said.get(key), named)


def _kind(said: object) -> str:
    return str(said.get("type")) if isinstance(said, dict) else str(said)


def _logical(said: object) -> object:
    if not isinstance(said, dict) or said.get("logicalType") is None:
        return None
    return (said["logicalType"], said.get("precision"), said.get("scale", 0))


def _scalars_differ(writer: object, reader: object, at: Path) -> Iterable[str]:
    written, read = _kind(writer), _kind(reader)
    if read not in PROMOTIONS.get(written, frozenset({written})):
        yield f"{_place(at)} is written as {written} and read as {read}"
    elif _logical(writer) != _logical(reader):
        yield f"{_place(at)} has another logical type"


def _enums_differ(writer: Node, reader: Node, at: Path) -> Iterable[str]:
    if _other_name(writer, reader):
        yield f"{_place(at)} is an enum of another name"
    unknown = set(cast("list[str]", writer["symbols"])) - set(cast("list[str]", reader["symbols"]))
    if unknown and "default" not in reader:
        yield f"{_place(at)} may be {quoted(min(unknown))}, which the reader's enum doesn't have"


def _other_name(writer: Node, reader: Node) -> bool:
    """Whether two named types have different names, without namespaces; the reader's aliases count
    as names."""
    names = {str(reader.get("name")), *cast("list[str]", reader.get("aliases", []))}
    return str(writer.get("name")).rpartition(".")[2] not in {
        name.rpartition(".")[2] for name in names
    }


def _place(at: Path) -> str:
    return pointer(list(at)) or "the body"
