"""Expressions over the rows of a table, which become a column of Spark or a text of SQL
(`term_renderings`).

A session needs a column; a view in a catalog needs a text, and Spark 4.2 gives a column's text back
in a form that it doesn't read. The functions have the names of those in pyspark.sql.functions, and
do the same.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, Self, TypeAlias

Plain: TypeAlias = bool | int | float | str | None


@dataclass(frozen=True, slots=True)
class Name:
    """A column of the row."""

    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Variable:
    """A lambda's argument, equal to itself alone. The rendering gives it a name."""


@dataclass(frozen=True, slots=True)
class Literal:
    """A plain value."""

    value: Plain


@dataclass(frozen=True, slots=True)
class Operation:
    """Two terms with an operator between them."""

    sign: str
    left: "Term"
    right: "Term"


@dataclass(frozen=True, slots=True)
class Call:
    """A function of Spark, by its name."""

    function: str
    arguments: "tuple[Term | Lambda, ...]"


@dataclass(frozen=True, slots=True)
class Lambda:
    """A function that Spark calls for each element."""

    variables: tuple[Variable, ...]
    body: "Term"


@dataclass(frozen=True, slots=True)
class Struct:
    """A struct: names and terms of its fields."""

    fields: "tuple[tuple[str, Term], ...]"


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a struct."""

    of: "Term"
    name: str


@dataclass(frozen=True, slots=True)
class Cast:
    """A value as another type; `is_safe`: null for a value that can't be cast."""

    of: "Term"
    kind: str
    is_safe: bool


@dataclass(frozen=True, slots=True)
class Test:
    """A test of one term: IS NULL, IS NOT NULL, NOT."""

    of: "Term"
    test: str


@dataclass(frozen=True, slots=True)
class In:
    """Whether a text is one of these."""

    of: "Term"
    choices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Case:
    """The value of the first case that is true."""

    cases: "tuple[tuple[Term, Term], ...]"
    otherwise: "Term | None"


Node: TypeAlias = (
    Name | Variable | Literal | Operation | Call | Struct | Field | Cast | Test | In | Case
)


@dataclass(frozen=True, slots=True, eq=False)
class Term:
    """One expression. It has the operators and methods of a column that selectors need; `known` is
    its name in a struct."""

    node: Node
    known: str = ""

    def __and__(self, other: "Term") -> "Term":
        return Term(Operation("AND", self, other))

    def __or__(self, other: "Term") -> "Term":
        return Term(Operation("OR", self, other))

    def __invert__(self) -> "Term":
        return Term(Test(self, "NOT"))

    def __eq__(self, other: object) -> "Term":  # type: ignore[override]
        return Term(Operation("=", self, _term(other)))

    def __ne__(self, other: object) -> "Term":  # type: ignore[override]
        return Term(Operation("<>", self, _term(other)))

    __hash__ = None  # type: ignore[assignment]

    def __lt__(self, other: object) -> "Term":
        return Term(Operation("<", self, _term(other)))

    def __le__(self, other: object) -> "Term":
        return Term(Operation("<=", self, _term(other)))

    def __gt__(self, other: object) -> "Term":
        return Term(Operation(">", self, _term(other)))

    def __ge__(self, other: object) -> "Term":
        return Term(Operation(">=", self, _term(other)))

    def __add__(self, other: object) -> "Term":
        return Term(Operation("+", self, _term(other)))

    def __sub__(self, other: object) -> "Term":
        return Term(Operation("-", self, _term(other)))

    def __mul__(self, other: object) -> "Term":
        return Term(Operation("*", self, _term(other)))

    def __getitem__(self, name: str) -> "Term":
        return Term(Field(self, name))

    def alias(self, name: str) -> "Term":
        return Term(self.node, name)

    def cast(self, kind: str) -> "Term":
        return Term(Cast(self, kind, is_safe=False))

    def try_cast(self, kind: str) -> "Term":
        return Term(Cast(self, kind, is_safe=True))

    def isNull(self) -> "Term":  # noqa: N802 - as a column has it
        return Term(Test(self, "IS NULL"))

    def isNotNull(self) -> "Term":  # noqa: N802 - as a column has it
        return Term(Test(self, "IS NOT NULL"))

    def isin(self, *choices: str) -> "Term":
        return Term(In(self, choices))


class CaseTerm(Term):
    """A term made by `when`, to which more cases or an `otherwise` may be added."""

    __slots__ = ()

    def when(self, condition: Term, value: Term) -> Self:
        return type(self)(Case((*self._cases, (condition, value)), None))

    def otherwise(self, value: Term) -> Term:
        return Term(Case(self._cases, value))

    @property
    def _cases(self) -> tuple[tuple[Term, Term], ...]:
        assert isinstance(self.node, Case)  # noqa: S101
        return self.node.cases


def _term(value: object) -> Term:
    if isinstance(value, Term):
        return value
    assert value is None or isinstance(value, bool | int | float | str)  # noqa: S101
    return lit(value)


# Functions.


def col(name: str) -> Term:
    return Term(Name(name))


def lit(value: Plain) -> Term:
    return Term(Literal(value))


def when(condition: Term, value: Term) -> CaseTerm:
    return CaseTerm(Case(((condition, value),), None))


def struct(*fields: Term) -> Term:
    """A struct of fields, each of which has an alias."""
    return Term(Struct(tuple((one.known, one) for one in fields)))


def call_function(name: str, *arguments: object) -> Term:
    return Term(Call(name, tuple(map(_term, arguments))))


def array(*items: Term) -> Term:
    return call_function("array", *items)


def coalesce(*values: Term) -> Term:
    return call_function("coalesce", *values)


def transform(values: Term, body: Callable[[Term], Term]) -> Term:
    return Term(Call("transform", (values, _lambda(body, 1))))


def aggregate(
    values: Term,
    begin: Term,
    step: Callable[[Term, Term], Term],
    end: Callable[[Term], Term] | None = None,
) -> Term:
    ending = () if end is None else (_lambda(end, 1),)
    return Term(Call("aggregate", (values, begin, _lambda(step, 2), *ending)))


def _lambda(body: Callable[..., Term], many: int) -> Lambda:
    variables = tuple(Variable() for _ in range(many))
    return Lambda(variables, body(*map(Term, variables)))


def _function(name: str) -> Callable[..., Term]:
    return partial(call_function, name)


concat: Final = _function("concat")
element_at: Final = _function("element_at")
get: Final = _function("get")
greatest: Final = _function("greatest")
left: Final = _function("left")
length: Final = _function("length")
nullif: Final = _function("nullif")
right: Final = _function("right")
rlike: Final = _function("rlike")
size: Final = _function("size")
slice_of: Final = _function("slice")
try_add: Final = _function("try_add")
try_divide: Final = _function("try_divide")
try_element_at: Final = _function("try_element_at")
try_mod: Final = _function("try_mod")
try_multiply: Final = _function("try_multiply")
try_subtract: Final = _function("try_subtract")
unix_millis: Final = _function("unix_millis")
