"""Literal tables of transitions, by state and event."""

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeVar

from distributary.pipeline.errors import IllegalTransition

S = TypeVar("S", bound=StrEnum)
E = TypeVar("E", bound=StrEnum)
R = TypeVar("R")


def row_of(rows: Mapping[tuple[S, E], R], state: S, event: E) -> R:
    """Return the row of a state and an event. Raises IllegalTransition if there is none."""
    try:
        return rows[state, event]
    except KeyError:
        raise IllegalTransition(state, event) from None
