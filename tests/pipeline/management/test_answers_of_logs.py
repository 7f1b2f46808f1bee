"""A change of what is in several logs: which logs it needs, and one answer of theirs."""

import pytest

from distributary.pipeline.management.answers_of_logs import (
    existing,
    is_last,
    lacking,
    looking,
    making,
    remaining,
    together,
    used_first,
)
from distributary.pipeline.management.management_messages import (
    ABSENT,
    CONFLICT,
    OK,
    Answer,
    Entity,
    Request,
    Verb,
)

DONE, GONE, NO = Answer(OK, "done"), Answer(ABSENT, "none"), Answer(CONFLICT, "no")


def asked(verb: Verb, **attributes: int) -> Request:
    return Request(verb, Entity.QUEUE, "orders", attributes, "a")


@pytest.mark.parametrize(
    ("answers", "status"),
    [
        ((DONE, GONE), OK),
        ((GONE, DONE, GONE), OK),
        ((GONE, GONE), ABSENT),
        ((DONE, NO), CONFLICT),
        ((DONE, NO, GONE), CONFLICT),
        ((NO, GONE), CONFLICT),
    ],
)
def test_a_log_without_the_entity_has_nothing_to_change(
    answers: tuple[Answer, ...], status: int
) -> None:
    found = together([(str(nth), one) for nth, one in enumerate(answers)])
    assert found.status == status
    assert found.description.count(": ") == len(answers)


@pytest.mark.parametrize("verb", [Verb.PAUSE, Verb.UPDATE])
def test_what_must_hold_for_messages_to_come_needs_the_queue_everywhere(verb: Verb) -> None:
    answers = [("a", DONE), ("b", GONE), ("c", NO), ("d", GONE)]
    assert lacking(asked(verb), answers) == ["b", "d"]
    assert lacking(asked(verb), [("b", GONE), ("d", GONE)]) == []
    made = making(asked(verb), "queue://orders")
    assert (made.verb, made.entity, made.log) == (Verb.CREATE, Entity.QUEUE, "a")


@pytest.mark.parametrize("verb", [Verb.DELETE, Verb.PURGE, Verb.RESUME, Verb.REDRIVE])
def test_other_changes_make_no_queue(verb: Verb) -> None:
    assert lacking(asked(verb), [("a", DONE), ("b", GONE)]) == []


def test_counts_are_summed_up_and_a_most_is_of_all() -> None:
    answers = [
        ("a", Answer(OK, "", {"redriven": 3, "stayed": 1, "misfits": 0})),
        ("b", Answer(OK, "", {"redriven": 2, "stayed": 0, "misfits": 0})),
        ("c", GONE),
    ]
    assert together(answers).body == {"redriven": 5, "stayed": 1, "misfits": 0}
    request = asked(Verb.REDRIVE, max=5)
    left = [remaining(request, answers[:count]).attributes["max"] for count in range(4)]
    assert left == [5, 2, 0, 0]
    assert remaining(asked(Verb.PURGE), answers) == asked(Verb.PURGE)


def test_a_creation_and_a_deletion_look_first() -> None:
    read = Request(Verb.READ, Entity.QUEUE, "orders", {}, "a")
    assert looking(asked(Verb.CREATE)) == looking(asked(Verb.DELETE)) == read
    assert looking(asked(Verb.PAUSE)) is None
    assert looking(asked(Verb.DELETE, force=True)) is None
    assert looking(Request(Verb.CREATE, Entity.TOPIC, "orders", {}, "a")) is None
    refusal = existing(asked(Verb.CREATE), [("a", GONE), ("b", DONE)])
    assert refusal is not None
    assert refusal.status == CONFLICT
    assert refusal.description.startswith("b: ")
    assert existing(asked(Verb.CREATE), [("a", GONE), ("b", NO)]) is None
    assert existing(asked(Verb.DELETE), [("b", DONE)]) is None


@pytest.mark.parametrize("use", ["backlog", "consumers", "producers"])
def test_a_deletion_begins_where_it_is_refused_and_ends_there(use: str) -> None:
    unused = Answer(OK, "", {"backlog": 0, "consumers": 0, "producers": 0})
    found = [("a", unused), ("b", GONE), ("c", Answer(OK, "", {use: 1}))]
    assert used_first(found) == ("c", "a", "b")
    assert is_last(asked(Verb.DELETE), NO)
    assert not is_last(asked(Verb.DELETE), GONE)
    assert not is_last(asked(Verb.PURGE), NO)
