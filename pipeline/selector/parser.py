"""The parser of selectors: makes a tree of a text. Its errors name the place and the expectation.

Operators from the loosest to the tightest:

    OR · AND · = <> IS · < <= > >= LIKE BETWEEN IN · + - · * / % · sign, NOT, parentheses

NOT applies to all operators tighter than AND: `NOT a = 1` is `NOT (a = 1)`, as in JMS. An
expression that can never be true because of its literals' types is an error.
"""

from dataclasses import dataclass
from enum import StrEnum

from distributary.pipeline.selector import lexer
from distributary.pipeline.selector.lexer import EXACT_END, SelectorError, Token, tokens
from distributary.pipeline.selector.like import passes
from distributary.pipeline.selector.syntax import (
    And,
    Arithmetic,
    Between,
    Comparator,
    Comparison,
    Expression,
    Identifier,
    In,
    IsNull,
    Like,
    Literal,
    Negative,
    Not,
    Operator,
    Or,
    Selector,
    identifiers,
    pattern_parts,
)

#: Characters of a selector at most. Selectors in the log were accepted, perhaps with another
#: setting, so this is the bound of the setting and of selectors read from the log.
CHARS_MAX = 65_536
#: Passes over texts (`pipeline.selector.like`) at most.
PASSES_MAX = CHARS_MAX
#: Levels of a tree, and of parentheses and right operands in its text: each costs stack.
DEPTH_MAX = 128

#: Header fields that change on the way, or give a destination: JMS allows no selectors on them.
FORBIDDEN = frozenset(
    {"JMSDestination", "JMSReplyTo", "JMSRedelivered", "JMSExpiration", "JMSDeliveryTime"}
)

_OR, _AND, _EQUAL, _ORDER, _SUM, _PRODUCT = range(1, 7)
_LEVELS: dict[int | float | str, int] = {
    "OR": _OR,
    "AND": _AND,
    **dict.fromkeys(("=", "<>", "IS"), _EQUAL),
    **dict.fromkeys(("<", "<=", ">", ">=", "LIKE", "BETWEEN", "IN", "NOT"), _ORDER),
    **dict.fromkeys(("+", "-"), _SUM),
    **dict.fromkeys(("*", "/", "%"), _PRODUCT),
}
_COMPARATORS: dict[int | float | str, Comparator] = {
    "=": "=",
    "<>": "<>",
    "<": "<",
    "<=": "<=",
    ">": ">",
    ">=": ">=",
}
_OPERATORS: dict[int | float | str, Operator] = {"+": "+", "-": "-", "*": "*", "/": "/", "%": "%"}


class _Type(StrEnum):
    """The type of an expression's value, as far as it is known without a message."""

    BOOLEAN = "a boolean"
    NUMBER = "a number"
    STRING = "a string"
    ANY = "anything"


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of the tree, with the token at which its text begins."""

    expression: Expression
    type: _Type
    token: Token
    depth: int = 1


@dataclass(frozen=True, slots=True)
class SelectorLimits:
    """Limits of a selector: characters, levels, and passes over the texts of one message."""

    chars_max: int = CHARS_MAX
    depth_max: int = DEPTH_MAX
    passes_max: int = PASSES_MAX


#: Limits of selectors read from the log.
LIMITS = SelectorLimits()


def parse(text: str, limits: SelectorLimits = LIMITS) -> Selector:
    """Parse a selector. Raises only SelectorError."""
    if len(text) > limits.chars_max:
        raise SelectorError(
            text, limits.chars_max, f"it goes on beyond {limits.chars_max} characters"
        )
    whole = _Parser(text, min(limits.depth_max, DEPTH_MAX)).whole()
    if (often := passes(whole)) > limits.passes_max:
        raise SelectorError(
            text,
            0,
            f"it goes {often} times over a text, {limits.passes_max} times at most: once for each "
            "LIKE, + and = of two names; of a LIKE with a _ between two % once for each character "
            "there",
        )
    return Selector(text, whole, frozenset(identifiers(whole)))


class _Parser:
    """Reads the tokens one by one; each method stops before the first token that it doesn't use."""

    def __init__(self, text: str, depth_max: int) -> None:
        self._text, self._depth_max = text, depth_max
        self._tokens = tokens(text)
        self._token = next(self._tokens)
        self._nesting = 0

    def whole(self) -> Expression:
        part = self._boolean(self._expression(_OR))
        if self._token.kind is not lexer.Kind.END:
            raise self._unexpected("an operator or the end")
        return part.expression

    # Tokens.

    def _next(self) -> Token:
        token, self._token = self._token, next(self._tokens, self._token)
        return token

    def _take(self, word: str) -> Token:
        if not self._token.is_(word):
            raise self._unexpected(f"'{word}'")
        return self._next()

    def _string(self) -> Token:
        if self._token.kind is not lexer.Kind.STRING:
            raise self._unexpected("a string such as 'text'")
        return self._next()

    def _unexpected(self, wanted: str) -> SelectorError:
        return self._error(self._token, f"expected {wanted}, found {self._token.told}")

    def _error(self, token: Token, complaint: str) -> SelectorError:
        return SelectorError(self._text, token.at, complaint)

    # The tree.

    def _expression(self, level: int) -> _Part:
        """Parse an expression whose operators bind at least as tightly as the level."""
        self._nesting += 1
        if self._nesting > self._depth_max:
            raise self._too_deep(self._token)
        part = self._operand()
        while (binding := self._binding()) >= level:
            part = self._operation(part, binding)
        self._nesting -= 1
        return part

    def _binding(self) -> int:
        token = self._token
        if token.kind not in (lexer.Kind.WORD, lexer.Kind.SIGN):
            return 0
        return _LEVELS.get(token.value, 0)

    def _operation(self, left: _Part, binding: int) -> _Part:
        token = self._token
        if binding in (_OR, _AND):
            return self._chain(left, binding)
        if token.is_("IS"):
            return self._is_null(left)
        if token.kind is lexer.Kind.WORD:
            return self._word_operation(left)
        self._next()
        right = self._expression(binding + 1)
        if binding >= _SUM:
            return self._arithmetic(left, token, right)
        if binding == _ORDER:
            left, right = self._number(left), self._number(right)
        elif _Type.ANY not in (left.type, right.type) and left.type is not right.type:
            complaint = f"{left.type} and {right.type} are never equal"
            raise self._error(token, complaint)
        comparison = Comparison(_COMPARATORS[token.value], left.expression, right.expression)
        return self._made(comparison, _Type.BOOLEAN, left, right)

    def _chain(self, first: _Part, binding: int) -> _Part:
        """Make one node of all operands of consecutive ORs or ANDs."""
        word = "OR" if binding == _OR else "AND"
        operands = [self._boolean(first)]
        while self._token.is_(word):
            self._next()
            operands.append(self._boolean(self._expression(binding + 1)))
        parts = tuple(operand.expression for operand in operands)
        node = Or(parts) if binding == _OR else And(parts)
        return self._made(node, _Type.BOOLEAN, *operands)

    def _is_null(self, left: _Part) -> _Part:
        self._take("IS")
        negated = self._token.is_("NOT") and bool(self._next())
        if not self._token.is_("NULL"):
            raise self._unexpected("'NULL'" if negated else "'NULL' or 'NOT NULL'")
        self._next()
        return self._negated(self._made(IsNull(left.expression), _Type.BOOLEAN, left), negated)

    def _word_operation(self, left: _Part) -> _Part:
        """Parse [NOT] LIKE, BETWEEN or IN."""
        negated = self._token.is_("NOT") and bool(self._next())
        token = self._token
        if token.is_("LIKE"):
            part = self._like(left)
        elif token.is_("BETWEEN"):
            part = self._between(left)
        elif token.is_("IN"):
            part = self._in(left)
        else:
            raise self._unexpected("'LIKE', 'BETWEEN' or 'IN' after 'NOT'")
        return self._negated(part, negated)

    def _like(self, left: _Part) -> _Part:
        self._take("LIKE")
        pattern = self._string()
        escape = None
        if self._token.is_("ESCAPE"):
            self._next()
            token = self._string()
            escape = str(token.value)
            if len(escape) != 1:
                raise self._error(token, f"ESCAPE needs one character, not {len(escape)}")
        if pattern_parts(str(pattern.value), escape) is None:
            raise self._error(pattern, "the pattern ends with its escape character")
        like = Like(left.expression, str(pattern.value), escape)
        return self._made(like, _Type.BOOLEAN, left)

    def _between(self, left: _Part) -> _Part:
        self._take("BETWEEN")
        low = self._number(self._expression(_SUM))
        self._take("AND")
        high = self._number(self._expression(_SUM))
        left = self._number(left)
        between = Between(left.expression, low.expression, high.expression)
        return self._made(between, _Type.BOOLEAN, left, low, high)

    def _in(self, left: _Part) -> _Part:
        token = self._take("IN")
        if not isinstance(left.expression, Identifier):
            raise self._error(token, "the operand before IN must be a name")
        self._take("(")
        choices = [str(self._string().value)]
        while self._token.is_(","):
            self._next()
            choices.append(str(self._string().value))
        if not self._token.is_(")"):
            raise self._unexpected("',' or ')'")
        self._next()
        return self._made(In(left.expression, tuple(choices)), _Type.BOOLEAN, left)

    def _arithmetic(self, left: _Part, token: Token, right: _Part) -> _Part:
        types = {left.type, right.type}
        if token.is_("+") and _Type.STRING in types and types <= {_Type.STRING, _Type.ANY}:
            type_ = _Type.STRING
        elif token.is_("+") and types == {_Type.ANY}:
            type_ = _Type.ANY
        else:
            left, right = self._number(left), self._number(right)
            type_ = _Type.NUMBER
        node = Arithmetic(_OPERATORS[token.value], left.expression, right.expression)
        return self._made(node, type_, left, right)

    def _operand(self) -> _Part:
        token = self._token
        match token.kind:
            case lexer.Kind.NUMBER:
                self._next()
                value = float(token.value) if token.value == EXACT_END else token.value
                return _Part(Literal(value), _Type.NUMBER, token)
            case lexer.Kind.STRING:
                self._next()
                return _Part(Literal(token.value), _Type.STRING, token)
            case lexer.Kind.NAME:
                self._next()
                return _Part(self._identifier(token), _Type.ANY, token)
            case lexer.Kind.WORD if token.is_("TRUE", "FALSE"):
                self._next()
                return _Part(Literal(token.is_("TRUE")), _Type.BOOLEAN, token)
        if token.is_("NULL"):
            raise self._error(token, "NULL stands only after IS or IS NOT")
        if token.is_("("):
            self._next()
            part = self._expression(_OR)
            if not self._token.is_(")"):
                raise self._unexpected("an operator or ')'")
            self._next()
            return part
        if token.is_("NOT"):
            self._next()
            return self._negated(self._boolean(self._expression(_EQUAL)), negated=True)
        if token.is_("+", "-"):
            return self._signed()
        raise self._unexpected("a value")

    def _signed(self) -> _Part:
        sign = self._next()
        token = self._token
        if sign.is_("-") and token.kind is lexer.Kind.NUMBER and not isinstance(token.value, str):
            self._next()
            return _Part(Literal(-token.value), _Type.NUMBER, sign)
        operand = self._number(self._expression(_PRODUCT + 1))
        if sign.is_("+"):
            return operand
        return self._made(Negative(operand.expression), _Type.NUMBER, operand)

    def _identifier(self, token: Token) -> Identifier:
        name = str(token.value)
        if name in FORBIDDEN:
            raise self._error(token, f"{name} can't stand in a selector")
        return Identifier(name)

    # Nodes and their types.

    def _made(self, expression: Expression, type_: _Type, *parts: _Part) -> _Part:
        depth = 1 + max(part.depth for part in parts)
        if depth > self._depth_max:
            raise self._too_deep(parts[-1].token)
        return _Part(expression, type_, parts[0].token, depth)

    def _negated(self, part: _Part, negated: bool) -> _Part:
        return self._made(Not(part.expression), _Type.BOOLEAN, part) if negated else part

    def _too_deep(self, token: Token) -> SelectorError:
        return self._error(token, f"it is nested deeper than {self._depth_max} levels")

    def _boolean(self, part: _Part) -> _Part:
        return self._of_type(part, _Type.BOOLEAN)

    def _number(self, part: _Part) -> _Part:
        return self._of_type(part, _Type.NUMBER)

    def _of_type(self, part: _Part, wanted: _Type) -> _Part:
        if part.type not in (wanted, _Type.ANY):
            raise self._error(part.token, f"expected {wanted}, found {part.type}")
        return part
