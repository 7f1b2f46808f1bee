"""The tables that say what a peer may send, and when."""

import pytest

from distributary.pipeline.amqp.endpoint_states import (
    CONNECTION,
    FIELDS,
    LINK,
    NAMES,
    SESSION,
    VIOLATIONS,
    ConnectionState,
    Kind,
    LinkState,
    SessionState,
    Violation,
    condition_and_sentence,
)

#: Frames that aren't for a session, and those of a session that aren't for a link.
OF_CONNECTIONS = {Kind.OPEN, Kind.CLOSE}
OF_SESSIONS = {Kind.BEGIN, Kind.END, Kind.SESSION_FLOW, Kind.DISPOSITION}
#: Errors of AMQP 1.0 part 2, sections 2.8.15 to 2.8.17.
ERRORS = {
    *("amqp:illegal-state", "amqp:not-allowed", "amqp:invalid-field", "amqp:decode-error"),
    *("amqp:connection:framing-error", "amqp:resource-limit-exceeded"),
    *("amqp:session:handle-in-use", "amqp:session:unattached-handle"),
}


@pytest.mark.parametrize(
    ("table", "states", "kinds"),
    [
        (CONNECTION, ConnectionState, set(Kind)),
        (SESSION, SessionState, set(Kind) - OF_CONNECTIONS),
        (LINK, LinkState, set(Kind) - OF_CONNECTIONS - OF_SESSIONS),
    ],
)
def test_the_tables_are_whole(table: dict, states: type, kinds: set[Kind]) -> None:
    """Each kind of frame has a row, and the row says something of each state."""
    assert set(table) == kinds
    for row in table.values():
        assert len(row) == len(states)
        assert all(isinstance(cell, states | Violation) for cell in row)


def test_endpoints_come_and_go() -> None:
    """Each state is one that a frame leads to, and that a frame leads away from."""
    for table, states in ((SESSION, SessionState), (LINK, LinkState)):
        for state in states:
            reached = {
                row[before] for row in table.values() for before in states if before != state
            }
            left = {row[state] for row in table.values()}
            assert state in reached
            assert any(isinstance(cell, states) and cell is not state for cell in left)


def test_nobody_may_do_what_takes_an_open_before_it() -> None:
    """Before the open nothing but a close comes; what comes behind a close changes nothing."""
    for kind, (awaiting, _, closed) in CONNECTION.items():
        assert (awaiting is Violation.NO_OPEN) == (kind not in OF_CONNECTIONS)
        assert closed is ConnectionState.CLOSED


def test_fields_are_in_their_order() -> None:
    """C reads them in one pass."""
    assert set(FIELDS) == set(NAMES)
    for fields in FIELDS.values():
        places = [field.place for field in fields.values()]
        assert places == sorted(set(places))


@pytest.mark.parametrize("violation", VIOLATIONS)
def test_every_violation_has_an_error_and_a_sentence(violation: Violation) -> None:
    """One of AMQP's errors, and a sentence without a gap."""
    condition, sentence = condition_and_sentence(
        VIOLATIONS.index(violation), code=0x14, channel=11, handle=22, number=33
    )
    assert condition in ERRORS
    assert "{" not in sentence
    for gap, said in (("{channel}", "11"), ("{handle}", "22"), ("{number}", "33")):
        assert (gap in violation.value.sentence) == (said in sentence)
