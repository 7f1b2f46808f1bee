"""Selectors over the rows of `messages`: the answers are the gateway's own, all three."""

from uuid import UUID

import pytest
from hypothesis import Phase, given, seed, settings
from proton import (
    Message,
    byte,
    char,
    decimal32,
    float32,
    int32,
    short,
    symbol,
    timestamp,
    ubyte,
    uint,
    ulong,
)
from pyspark.sql import SparkSession
from selector_rules import MESSAGE, TABLE
from selector_sides import by_gateway, by_spark, encoded, of, rows
from selector_trees import conditions, messages

from distributary.pipeline.selector.evaluate import TEXT_CHARS_MAX
from distributary.pipeline.selector.parser import parse
from distributary.pipeline.selector.syntax import Expression, printed
from distributary.pipeline.transforms.selector.selector_column import column

SELECTORS, MESSAGES = 100, 100


def drawn() -> tuple[list[Expression], list[dict[str, object]]]:
    """Trees and messages, the same in every run."""
    trees: list[Expression] = []
    values: list[dict[str, object]] = []

    @seed(36)
    @settings(max_examples=2 * SELECTORS, database=None, phases=[Phase.generate])
    @given(conditions, messages)
    def draw(tree: Expression, message: dict[str, object]) -> None:
        if tree not in trees:
            trees.append(tree)
        values.append(message)

    draw()
    # The first ones are small; of messages those with many values are wanted.
    return trees[-SELECTORS:], sorted(values, key=len)[-MESSAGES:]


def test_the_gateway_and_spark_agree(spark: SparkSession) -> None:
    """On 10,000 pairs of a selector and a message, and all of the answers are among them."""
    trees, values = drawn()
    data = [encoded(one) for one in values]
    selectors = [of(tree) for tree in trees]
    table = rows(spark, data)
    wanted, found = by_gateway(selectors, data), by_spark(selectors, table)
    for tree, said, answers in zip(trees, found, wanted, strict=True):
        for message, one, answer in zip(values, said, answers, strict=True):
            assert one is answer, f"{printed(tree)} of {message}"
    flat = [answer for answers in wanted for answer in answers]
    assert len(flat) == SELECTORS * MESSAGES
    assert min(flat.count(answer) for answer in (True, False, None)) > len(flat) // 10


def test_every_rule_of_the_language(spark: SparkSession) -> None:
    """The rows by which the gateway's own compiler is tried."""
    selectors = [parse(text) for text, _ in TABLE]
    table = rows(spark, [encoded(MESSAGE)])
    found = by_spark(selectors, table)
    assert [(text, one[0]) for (text, _), one in zip(TABLE, found, strict=True)] == TABLE


TYPED = {
    "ubyte": ubyte(200),
    "byte": byte(-7),
    "short": short(-3),
    "int": int32(1),
    "uint": uint(2**32 - 1),
    "ulong": ulong(7),
    "beyond": ulong(2**63),
    "float": float32(0.1),
    "time": timestamp(1_700_000_000_000),
    "char": char("a"),
    "symbol": symbol("red"),
    "uuid": UUID(int=7),
    "decimal": decimal32(7),
    "binary": b"ab",
    "list": [1],
    "nothing": None,
    "smile": "a😀b",
    "long": "x" * (TEXT_CHARS_MAX + 1),
}
OF_TYPES = [
    ("ubyte = 200 AND byte = -7 AND short < int AND uint = 4294967295", True),
    ("ulong = 7 AND ulong = 7.0", True),
    ("beyond > 9223372036854775807", False),  # approximate: equal
    ("beyond = 9223372036854775808", True),
    ("beyond + 1 > 0", True),
    ("ubyte + beyond > 0", True),
    ("float = 0.1", False),  # 32 bits of it
    ("float BETWEEN 0.09 AND 0.11", True),
    ("time = 1700000000000", True),
    ("char = 'a' AND symbol = 'red' AND char + symbol = 'ared'", True),
    ("uuid IS NULL OR decimal IS NULL OR binary IS NULL OR list IS NULL", False),
    ("uuid = '00000000-0000-0000-0000-000000000007'", False),
    ("list LIKE '%'", False),
    ("binary = 'ab'", False),
    ("decimal > 1", False),
    ("decimal + 1 > 1", None),
    ("nothing IS NULL", True),
    ("nothing = 'x'", None),
    ("smile LIKE 'a_b'", True),
    ("smile LIKE 'a__b'", False),
    ("long LIKE '%'", None),
    ("long IS NOT NULL", True),
    ("long + 'x' = 'x'", None),
    ("smile + long IS NULL", True),
    ("(ubyte = 200) = (int = 1)", True),
    ("(ubyte = 200) = nothing", None),
    ("(ubyte = 200) = int", False),
    ("(ubyte = 200) <> int", True),
    ("(nothing = 1) = int", None),
    ("(ubyte = 200) = TRUE", True),
    ("(ubyte = 200) <> TRUE", False),
    ("(nothing = 1) IS NULL = TRUE", True),
    ("ubyte", None),
    ("1 = 1", True),
    ("1 / 0 = 1", None),
    ("NOT (1 / 0 = 1)", None),
    ("'it''s' = 'it''s'", True),
    ("\"'quoted\\\" = 'x'", None),
]


def test_every_type_of_amqp(spark: SparkSession) -> None:
    """A value keeps its type and all of its bits on its way into the table."""
    data = [encoded(TYPED)]
    selectors = [parse(text) for text, _ in OF_TYPES]
    table = rows(spark, data)
    found = [answers[0] for answers in by_spark(selectors, table)]
    assert list(zip([text for text, _ in OF_TYPES], found, strict=True)) == OF_TYPES
    assert by_gateway(selectors, data) == [[answer] for answer in found]


FIELDS = Message(
    body="x",
    durable=True,
    priority=7,
    id="ID:one",
    correlation_id=UUID(int=7),
    subject="flight",
    group_id="g",
    group_sequence=3,
    delivery_count=2,
    user_id=b"ann",
    creation_time=1_700_000_000.007,
)
OF_FIELDS = [
    "JMSDeliveryMode = 'PERSISTENT'",
    "JMSPriority = 7",
    "JMSMessageID = 'ID:one'",
    "JMSCorrelationID LIKE 'ID:AMQP!_UUID:%7' ESCAPE '!'",
    "JMSType = 'flight'",
    "JMSTimestamp = 1700000000007",
    "JMSXGroupID = 'g'",
    "JMSXGroupSeq = 3",
    "JMSXDeliveryCount = 3",
    "JMSXUserID = 'ann'",
]


def test_every_header_field(spark: SparkSession) -> None:
    """Of a message that has it, and of one that has none of them, and of bytes that are none."""
    data = [bytes(FIELDS.encode()), bytes(Message(body="x").encode()), b"\x00\x53\x75\xa0\x01x"]
    selectors = [parse(text) for text in OF_FIELDS]
    found = by_spark(selectors, rows(spark, data))
    assert found == by_gateway(selectors, data)
    assert [answers[0] for answers in found] == [True] * len(OF_FIELDS)
    unsaid = ("JMSDeliveryMode", "JMSPriority", "JMSXDeliveryCount")
    for text, answers in zip(OF_FIELDS, found, strict=True):
        assert answers[1] is (False if text.startswith(unsaid) else None)


#: Texts that Spark's parser could read as something else.
ODD_TEXTS = ["it's", "a\\b", "a\\'b", "\\", "''", "${spark.app.name}", "$", "%\n", '"', "`é`", "--"]


def test_no_setting_of_a_session_reads_a_text_otherwise(spark: SparkSession) -> None:
    """Quotes, escapes and names of settings are what they are, compared, listed, joined and as a
    pattern, whatever the session makes of escapes."""
    data = [encoded({"a": text}) for text in ODD_TEXTS]
    said = ["'" + text.replace("'", "''") + "'" for text in ODD_TEXTS]
    selectors = [
        *(parse(f"a = {one} OR a IN ('x', {one})") for one in said),
        *(parse(f"a + 'x' = {one} + 'x'") for one in said),
        *(parse(f"a LIKE {one} ESCAPE '!'") for one in said),
    ]
    wanted = by_gateway(selectors, data)
    assert sum(answers.count(True) for answers in wanted) >= 3 * len(ODD_TEXTS)
    for escapes in ("false", "true"):
        other = spark.newSession()
        other.conf.set("spark.sql.parser.escapedStringLiterals", escapes)
        assert by_spark(selectors, rows(other, data)) == wanted


DEEP = [
    *(f"a{f' {sign} 1' * 50} = 7" for sign in "+-*/%"),
    *(f"{f'1 {sign} (' * 50}a{')' * 50} = 1" for sign in "+-*/"),
    "c" + " + ''" * 50 + " = 'red'",
    "-" + " (-" * 50 + "a" + ")" * 50 + " = -7",
    "a = 7" + " = TRUE" * 100,
    "a = 7" + " <> FALSE" * 100,
    "NOT (" * 60 + "a = 7" + ")" * 60,
    "(" * 50 + "a = 7" + ") IS NULL = FALSE" * 50,
    "(" * 50 + "a = 7" + "".join(f" OR c = 'x') AND c <> 'a{n}'" for n in range(50)),
    " OR ".join(f"a = {n}" for n in range(200)),
    f"c IN ({', '.join(repr(f'r{n}') for n in range(1_000))}, 'red')",
]


def test_a_condition_grows_with_its_selector(spark: SparkSession) -> None:
    """If a level named the one below it twice, fifty levels wouldn't end."""
    data = [encoded(one) for one in ({"a": 7, "c": "red"}, {"a": 8.0, "c": "blue"}, {})]
    selectors = [parse(text) for text in DEEP]
    table = rows(spark, data)
    found = by_spark(selectors, table)
    assert found == by_gateway(selectors, data)


@pytest.mark.parametrize(
    "pattern", ["_" * 20_000, "_a" * 10_000, "%a" * 2_000 + "%b", "%a_" * 8_000, "_%" * 4_000]
)
def test_no_pattern_is_too_long_for_the_jvm(spark: SparkSession, pattern: str) -> None:
    """Java's matcher goes a level deeper with each character of a plain pattern; the author of a
    selector must not be able to end the JVM by it."""
    data = [encoded({"a": "a" * 20_000}), encoded({"a": "a" * 19_999 + "c"})]
    selectors = [parse(f"a LIKE '{pattern}'")]
    found = by_spark(selectors, rows(spark, data))
    assert found == by_gateway(selectors, data)


def test_a_column_is_never_null(spark: SparkSession) -> None:
    """A row with an unknown result isn't selected."""
    table = rows(spark, [encoded({"a": 1}), encoded({})])
    found = table.select(column(parse("a = 1")).alias("s")).collect()
    assert [row.s for row in found] == [True, False]


#: Texts, and patterns with few long pieces, many short ones, pieces with `_`, and none.
LIKE_TEXTS = ["", "a", "abc", "aab" * 7, "ab" * 9 + "c", "x%y_z", "ab\ncd", "é😀é", "a" * 300 + "b"]
LIKE_PATTERNS = [
    *("", "%", "_", "%%", "a%", "%c", "a%c", "%b%", "a_c", "%a_", "_%", "%_%", "___%"),
    *("%aab%aab%", "%aabaab%baab%", "a%bab%bc", "%ab%ab%ab%ab%", "%abc", "ab%abc", "a%a"),
    *("%é%", "é%é", "%😀%", "%b!%", "ab%cd", "%" + "a" * 299 + "b%", "%" + "a" * 300 + "%b"),
    *("%ab_ab%", "%a%b%c%", "aab%aab", "%aabaab%c", "%abab%c", "c%", "%abaabab%", "%ba%ab%"),
]


def test_like_is_the_same_whatever_the_pattern(spark: SparkSession) -> None:
    """Of both: pieces that overlap, that are at both ends, longer than the text, or empty."""
    data = [encoded({"a": text}) for text in LIKE_TEXTS]
    selectors = [parse(f"a LIKE '{pattern}'") for pattern in LIKE_PATTERNS]
    table = rows(spark, data)
    found, wanted = by_spark(selectors, table), by_gateway(selectors, data)
    for selector, have, want in zip(selectors, found, wanted, strict=True):
        assert have == want, selector.text


def test_a_long_pattern_is_no_more_work_than_a_short_one(spark: SparkSession) -> None:
    """A hundred rows of which each would take seconds if lengths were multiplied."""
    table = rows(spark, [encoded({"a": "a" * (TEXT_CHARS_MAX - 1) + "b"})] * 100)
    patterns = ["%" + "a" * 8_000 + "c%", "%" + "a" * 8_000 + "c", "%" + "a%" * 4_000 + "c%"]
    selectors = [parse(f"a LIKE '{pattern}'") for pattern in patterns]
    assert by_spark(selectors, table) == [[False] * 100] * 3
