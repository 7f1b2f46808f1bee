"""Literal tables of transitions: what follows in a state when an event comes."""

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeVar

from distributary.pipeline.errors import IllegalTransition

S = TypeVar("S", bound=StrEnum)
E = TypeVar("E", bound=StrEnum)
R = TypeVar("R")


def row_of(rows: Mapping[tuple[S, E], R], state: S, event: E) -> R:
    """What the table says. Raises IllegalTransition for what isn't in it."""
    try:
        return rows[state, event]
    except KeyError:
        raise IllegalTransition(state, event) from None
