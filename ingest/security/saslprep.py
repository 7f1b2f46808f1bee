"""Names and passwords in the one form in which they are compared: SASLprep (RFC 4013).

Texts that look the same compare as equal, whatever keyboard wrote them. The tables are those of
Unicode 3.2, as the RFC says; later characters are refused.
"""

import stringprep
import unicodedata

_PROHIBITED = (
    stringprep.in_table_c12,
    stringprep.in_table_c21_c22,
    stringprep.in_table_c3,
    stringprep.in_table_c4,
    stringprep.in_table_c5,
    stringprep.in_table_c6,
    stringprep.in_table_c7,
    stringprep.in_table_c8,
    stringprep.in_table_c9,
    stringprep.in_table_a1,
)


def saslprep(text: str) -> str:
    """Return the prepared text. Raises ValueError for a character that can't be in a name or
    password."""
    if text.isascii() and text.isprintable():
        return text  # as nearly all texts are
    mapped = "".join(
        " " if stringprep.in_table_c12(one) else one
        for one in text
        if not stringprep.in_table_b1(one)
    )
    prepared = unicodedata.ucd_3_2_0.normalize("NFKC", mapped)
    for one in prepared:
        if any(prohibited(one) for prohibited in _PROHIBITED):
            raise ValueError(f"the character U+{ord(one):04X} can't be in a name or a password")
    if any(map(stringprep.in_table_d1, prepared)) and not _one_direction(prepared):
        raise ValueError("it mixes text that runs to the left with text that runs to the right")
    return prepared


def _one_direction(text: str) -> bool:
    """Whether right-to-left text begins and ends with such characters, and has no left-to-right
    ones."""
    return (
        stringprep.in_table_d1(text[0])
        and stringprep.in_table_d1(text[-1])
        and not any(map(stringprep.in_table_d2, text))
    )
