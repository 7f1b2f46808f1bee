"""The tokens of a selector's text: literals, names, keywords and signs, each with its place.

Exact numbers have 64 bits; a literal beyond them is approximate.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from distributary.pipeline.errors import InvalidRequest

KEYWORDS = frozenset(
    {"NOT", "AND", "OR", "BETWEEN", "LIKE", "ESCAPE", "IN", "IS", "TRUE", "FALSE", "NULL"}
)

#: Exact numbers lie in -EXACT_END .. EXACT_END - 1.
EXACT_END = 2**63


class SelectorError(InvalidRequest):
    """The text is no selector. `line` and `column` count from 1."""

    def __init__(self, text: str, at: int, complaint: str) -> None:
        line_start = text.rfind("\n", 0, at) + 1
        self.line, self.column = text.count("\n", 0, at) + 1, at - line_start + 1
        super().__init__(f"selector, line {self.line}, column {self.column}: {complaint}")


class Kind(StrEnum):
    NUMBER = "a number"
    STRING = "a string"
    NAME = "a name"
    WORD = "a keyword"
    SIGN = "a sign"
    END = "the end"


@dataclass(frozen=True, slots=True)
class Token:
    """One token of a selector, which begins at `at`.

    `value` is a number's value, a string's or a name's text without its quotes, and a keyword in
    capitals. The number EXACT_END stays an int: with a minus in front it is exact.
    """

    kind: Kind
    value: int | float | str
    at: int
    raw: str

    @property
    def told(self) -> str:
        """The token as errors show it."""
        return "the end" if self.kind is Kind.END else f"'{_short(self.raw)}'"

    def is_(self, *words: str) -> bool:
        """Whether this is one of these keywords or signs."""
        return self.kind in (Kind.WORD, Kind.SIGN) and self.value in words


_TOKENS = re.compile(
    r"""
      (?P<space>   [ \t\n\r\f]+ | --[^\n]*\n | /\*(?s:.*?)\*/ )
    | (?P<approximate>
          (?: [0-9]+\.[0-9]* | \.[0-9]+ ) (?: [eE][+-]?[0-9]+ )? | [0-9]+ [eE][+-]?[0-9]+ )
    | (?P<hexadecimal> 0[xX][0-9a-fA-F]+ ) [lL]?
    | (?P<octal>   0[0-7]* ) [lL]?
    | (?P<decimal> [1-9][0-9]* ) [lL]?
    | (?P<string>  '(?: [^'] | '' )*+' )
    | (?P<quoted>  "(?: [^"] | "" )++" )
    | (?P<name>    (?: [^\W\d] | \$ ) [\w$]* )
    | (?P<sign>    <> | <= | >= | [=<>+*%(),] | -(?!-) | /(?!\*) )
    """,
    re.VERBOSE,
)
_NUMBERS = frozenset({"approximate", "hexadecimal", "octal", "decimal"})
_BASES = {"hexadecimal": 16, "octal": 8, "decimal": 10}
#: Characters that may not follow a number directly.
_PART_OF_NAME = re.compile(r"[\w$.]")
#: Digits of a number of 64 bits, in any base, at most: longer numbers are approximate.
_DIGITS_MAX = 70
_SHOWN_MAX = 40


def tokens(text: str) -> Iterator[Token]:
    """Return the tokens of the text, the last one of kind END. Raises SelectorError."""
    at = 0
    while at < len(text):
        found = _TOKENS.match(text, at)
        if found is None or found.lastgroup is None:
            raise SelectorError(text, at, _complaint(text, at))
        kind, raw = found.lastgroup, found[0]
        if kind in _NUMBERS:
            if _PART_OF_NAME.match(text, found.end()):
                raise SelectorError(text, at, f"'{_number_like(text, at)}' is no number")
            yield Token(Kind.NUMBER, _number(text, at, kind, found[kind]), at, raw)
        elif kind != "space":
            yield _word(kind, raw, at)
        at = found.end()
    yield Token(Kind.END, "", len(text), "")


def _word(kind: str, raw: str, at: int) -> Token:
    match kind:
        case "string":
            return Token(Kind.STRING, raw[1:-1].replace("''", "'"), at, raw)
        case "quoted":
            return Token(Kind.NAME, raw[1:-1].replace('""', '"'), at, raw)
        case "name" if raw.isascii() and raw.upper() in KEYWORDS:
            return Token(Kind.WORD, raw.upper(), at, raw)
        case "name":
            return Token(Kind.NAME, raw, at, raw)
    return Token(Kind.SIGN, raw, at, raw)


def _number(text: str, at: int, kind: str, digits: str) -> int | float:
    if kind != "approximate" and len(digits) <= _DIGITS_MAX:
        exact = int(digits, _BASES[kind])
        return exact if exact <= EXACT_END else float(exact)
    if kind in ("hexadecimal", "octal"):
        raise SelectorError(text, at, f"'{_short(digits)}' is too long for a number")
    if (approximate := float(digits)) == float("inf"):
        raise SelectorError(text, at, f"'{_short(digits)}' is too large for a number")
    return approximate


def _complaint(text: str, at: int) -> str:
    """Return why no token begins here."""
    match text[at]:
        case "'":
            return "the string that begins here has no end; a quote in a string is doubled"
        case '"':
            return "the quoted name that begins here has no end, or is empty"
        case "-":
            return "the comment that begins here needs a line's end; a minus can't follow a minus"
        case "/":
            return "the comment that begins here has no end"
        case character:
            return f"'{character}' begins no word of a selector"


def _number_like(text: str, at: int) -> str:
    found = re.compile(r"[\w$.]+").match(text, at)
    return _short(found[0] if found else "")


def _short(raw: str) -> str:
    return raw if len(raw) <= _SHOWN_MAX else f"{raw[:_SHOWN_MAX]}..."
