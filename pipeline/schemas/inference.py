"""Inference: a schema proposed from sample bodies, and statistics of each place in them.

Rule 1: a place gets the types of its values. A type that fewer than one value in a hundred has is
        left out of the schema, and its values are reported as odd.
Rule 2: the size of the proposal bounds memory, not the number of bodies.
"""

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

from distributary.pipeline.schemas.column_types import Scalar
from distributary.pipeline.schemas.json_columns import LONG_LEAST, LONG_MOST, type_of
from distributary.pipeline.schemas.json_values import SCALARS, Instance
from distributary.pipeline.schemas.typed_row import NotFitting, pointer

#: A type is odd if it has fewer than one in ODD_ONE_IN values.
ODD_ONE_IN: Final = 100
#: Different texts of an enum at most, and occurrences of each on average at least.
ENUM_MAX: Final = 12
ENUM_TIMES: Final = 20
#: Names in one object at most: with more it becomes a map, whose keys are data.
PROPERTIES_MAX: Final = 200
#: Elements of an array, and levels of nesting, that are inspected.
ELEMENTS_MAX: Final = 100
DEPTH_MAX: Final = 16
#: Characters of a text that may be a value of an enum.
VALUE_CHARACTERS_MAX: Final = 64

_FORMATS: Final = {"date-time": Scalar.TIMESTAMP, "date": Scalar.DATE}


@dataclass(slots=True)
class SeenPlace:
    """One place in the bodies: the number of its values, by type."""

    types: Counter[str] = field(default_factory=Counter)
    texts: Counter[str] = field(default_factory=Counter)
    formats: Counter[str] = field(default_factory=Counter)
    wide: bool = False  #: an integer needs more than 64 bits
    many_texts: bool = False
    properties: dict[str, "SeenPlace"] = field(default_factory=dict)
    elements: "SeenPlace | None" = None
    more: "SeenPlace | None" = None  #: the values of an object that is a map
    odd: dict[str, Instance] = field(default_factory=dict)  #: the first value of each type

    @property
    def count(self) -> int:
        """Number of values, null included."""
        return self.types.total()

    def add(self, value: Instance, depth: int = 0) -> None:
        """Add one value."""
        kind = type_of(value)
        self.types[kind] += 1
        self.odd.setdefault(kind, value if not isinstance(value, list | dict) else None)
        match value:
            case str():
                self._add_text(value)
            case bool() | None:
                pass
            case int():
                self.wide = self.wide or not LONG_LEAST <= value <= LONG_MOST
            case list() if depth < DEPTH_MAX:
                self.elements = self.elements or SeenPlace()
                for one in value[:ELEMENTS_MAX]:
                    self.elements.add(one, depth + 1)
            case dict() if depth < DEPTH_MAX:
                self._add_object(value, depth)

    def _add_text(self, text: str) -> None:
        for name, scalar in _FORMATS.items():
            try:
                SCALARS[scalar](text)
            except NotFitting:
                continue
            self.formats[name] += 1
        if self.many_texts:
            return
        self.texts[text[: VALUE_CHARACTERS_MAX + 1]] += 1
        if len(self.texts) > ENUM_MAX or len(text) > VALUE_CHARACTERS_MAX:
            self.many_texts = True
            self.texts.clear()

    def _add_object(self, value: dict[str, Instance], depth: int) -> None:
        for name, one in value.items():
            if self.more is None and len(self.properties) >= PROPERTIES_MAX:
                self.more = SeenPlace()
            if self.more is not None:
                self.more.add(one, depth + 1)
            else:
                self.properties.setdefault(name, SeenPlace()).add(one, depth + 1)


def proposed(seen: SeenPlace) -> dict[str, Any]:
    """Return the schema proposed for a place."""
    kinds = _usual(seen)
    if not kinds:
        return {}
    words = sorted(kinds)
    said: dict[str, Any] = {"type": words[0] if len(words) == 1 else words}
    if "string" in kinds:
        said |= _of_texts(seen, null="null" in kinds)
    if "integer" in kinds and seen.wide:
        said |= {"minimum": -(10**38) + 1, "maximum": 10**38 - 1}
    if "array" in kinds and seen.elements is not None:
        said["items"] = proposed(seen.elements)
    if "object" in kinds and seen.more is not None:
        said["additionalProperties"] = proposed(seen.more)
    elif "object" in kinds:
        said["properties"] = {name: proposed(one) for name, one in seen.properties.items()}
        always = seen.types["object"]
        said["required"] = [name for name, one in seen.properties.items() if one.count == always]
    return said


def _usual(seen: SeenPlace) -> set[str]:
    """Return the types of a place without odd ones. Null is never odd; integers among numbers are
    numbers."""
    values = seen.count - seen.types["null"]
    kinds = {kind for kind, count in seen.types.items() if count * ODD_ONE_IN >= values}
    kinds |= {"null"} & seen.types.keys()
    return kinds - {"integer"} if "number" in kinds else kinds


def _of_texts(seen: SeenPlace, *, null: bool) -> dict[str, Any]:
    count = seen.types["string"]
    for name in _FORMATS:
        if seen.formats[name] == count:
            return {"format": name}
    if seen.many_texts or count < ENUM_TIMES * len(seen.texts) or len(_usual(seen) - {"null"}) > 1:
        return {}
    values: list[str | None] = [*sorted(seen.texts)]
    return {"enum": [*values, None] if null else values}


def told(seen: SeenPlace, at: tuple[str, ...] = (), parent: int = 0) -> list[dict[str, Any]]:
    """Return the statistics, one line for each place."""
    usual = _usual(seen)
    kept = {"number", "integer"} if "number" in usual else usual
    odd = [
        f"{count} x {kind}{_example(seen, kind)}"
        for kind, count in seen.types.items()
        if kind not in kept and kind != "null"
    ]
    lines: list[dict[str, Any]] = [
        {
            "place": pointer(list(at)) or "the body",
            "types": dict(seen.types),
            "missing": max(parent - seen.count, 0),
            "nulls": seen.types["null"],
            "values": sorted(seen.texts) if seen.texts and not seen.many_texts else None,
            "odd": odd,
        }
    ]
    for name, one in seen.properties.items():
        if seen.more is None:
            lines += told(one, (*at, name), seen.types["object"])
    for inner in (seen.elements, seen.more):
        if inner is not None:
            lines += told(inner, (*at, "*"))
    return lines


def _example(seen: SeenPlace, kind: str) -> str:
    if kind in ("array", "object"):
        return ""
    return f", such as {json.dumps(seen.odd[kind], ensure_ascii=False)[:60]}"
