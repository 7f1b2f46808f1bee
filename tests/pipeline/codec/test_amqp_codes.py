"""The numbers of AMQP's encoding stand in one file, and are those of the specification."""

import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from distributary.pipeline.codec import amqp_codes as codes
from distributary.pipeline.codec.amqp_types import READERS

ROOT = Path(__file__).parents[3]
TABLE = ROOT / "pipeline" / "codec" / "amqp_codes.py"
SOURCES = sorted(
    path
    for top in ("pipeline", "ingest", "jobs", "examples")
    for pattern in ("*.py", "*.c")
    for path in (ROOT / top).rglob(pattern)
    if path != TABLE
)
#: Every number of the table but 0, which is everywhere.
NUMBERS = {*codes.CONSTRUCTORS.values(), *codes.Descriptor, *codes.Kind} - {0}

C_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
HEX = re.compile(r"\b0[xX]([0-9a-fA-F]{1,2})(?:[uU]?)\b")
ESCAPE = re.compile(r"\\x([0-9a-fA-F]{2})")
#: Widths by the high half of a constructor, in the forms in which code would repeat them.
WIDTHS = re.compile(
    r"1, 2, 4, 8, 16\b|1, 2, 3, 5, 9, 17\b|\[4\] = 1|\[5\] = [12]|>> 4\b.*\b0x[aA]\b"
)


def literals(path: Path) -> Iterator[tuple[int, int]]:
    """Every number of two hexadecimal digits in a file, with its line."""
    text = path.read_text()
    if not (HEX.search(text) or ESCAPE.search(text)):
        return
    if path.suffix == ".c":
        text = C_COMMENT.sub(lambda found: "\n" * found[0].count("\n"), text)
        for nth, line in enumerate(text.splitlines(), 1):
            yield from ((nth, int(digits, 16)) for digits in HEX.findall(line))
            yield from ((nth, int(digits, 16)) for digits in ESCAPE.findall(line))
        return
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.NUMBER:
            found = HEX.findall(token.string)
        elif token.type == tokenize.STRING and token.string.lower().startswith(("b", "rb")):
            found = ESCAPE.findall(token.string)
        else:
            continue
        yield from ((token.start[0], int(digits, 16)) for digits in found)


def test_no_other_file_says_a_number_of_the_table() -> None:
    said = [
        f"{path.relative_to(ROOT)}:{line}: 0x{number:02x}"
        for path in SOURCES
        for line, number in literals(path)
        if number in NUMBERS
    ]
    assert not said, said


def test_no_other_file_says_the_widths_of_values() -> None:
    said = [
        f"{path.relative_to(ROOT)}:{nth}: {line.strip()}"
        for path in SOURCES
        for nth, line in enumerate(path.read_text().splitlines(), 1)
        if WIDTHS.search(line)
    ]
    assert not said, said


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("one.py", "wide = code == 0xB1"),
        ("one.py", 'start = b"\\x00\\x53\\x70"'),
        ("one.c", "if (m[at] == 0xa1) return 2; /* 0xb1 */"),
        ("one.c", "enum { HEADER = 0x70 };"),
    ],
)
def test_what_says_one_is_found(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text + "\n")
    assert [number for _, number in literals(tmp_path / name) if number in NUMBERS]


def test_every_constructor_has_a_type_a_reader_and_a_width() -> None:
    assert set(codes.CONSTRUCTORS.values()) == set(codes.TYPE_NAMES) == set(READERS)
    assert len(codes.CONSTRUCTORS) == len(set(codes.CONSTRUCTORS.values())) == 40
    for name, code in codes.CONSTRUCTORS.items():
        if name != "DESCRIBED":
            assert bool(codes.FIXED_BYTES[code]) != bool(codes.SIZE_BYTES[code]), name


def test_names_say_the_width_of_sizes() -> None:
    for name, code in codes.CONSTRUCTORS.items():
        if codes.SIZE_BYTES[code]:
            assert name.endswith(str(8 * codes.SIZE_BYTES[code])), name


def test_every_section_has_a_symbol() -> None:
    assert sorted(codes.SECTION_SYMBOLS.values()) == list(codes.Kind)


def test_symbols_of_described_lists() -> None:
    assert codes.Descriptor.OPEN.symbol == "amqp:open:list"
    assert codes.Descriptor.DELETE_ON_CLOSE.symbol == "amqp:delete-on-close:list"
    assert codes.Descriptor.SASL_INIT.symbol == "amqp:sasl-init:list"
