"""Prepared transactions, against a model that keeps what its log says."""

from itertools import product

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from distributary.pipeline.errors import IllegalTransition, InvalidRequest
from distributary.pipeline.model.amqp_error import (
    LIMIT_EXCEEDED,
    PRECONDITION_FAILED,
    AmqpError,
)
from distributary.pipeline.transactions.global_id import GlobalId, branch_id, decision_id
from distributary.pipeline.transactions.prepared_transactions import (
    LISTED,
    ROWS,
    Event,
    Facts,
    Limits,
    Prepared,
    PreparedTransactions,
    State,
    Step,
    ended_otherwise,
)
from distributary.pipeline.transactions.recorded_age import is_young

LIMITS = Limits(count_max=4, of_user_max=3, bytes_max=100)
IDS = [f"1:{nth:02x}:" for nth in range(6)]
#: Keys of two users with the same ids.
KEYS = list(product("uv", IDS[:4]))
ENDS = {Event.COMMIT: State.COMMITTING, Event.ROLL_BACK: State.ROLLING_BACK}


def one(id_: str, user: str = "u", size: int = 1) -> Prepared[str]:
    return Prepared(id_, Facts(user, 0, (), 0, 0, size), "work")


def condition(amqp_error: AmqpError | Prepared[str] | None) -> str:
    assert isinstance(amqp_error, AmqpError)
    return amqp_error.condition


def test_the_table_has_a_row_for_all_that_can_come() -> None:
    """Only a prepared one is applied or undone; only what becomes durable ends it."""
    live = set(product(set(State) - {State.GONE}, Event))
    assert set(ROWS) == live - {(State.PREPARED, Event.DURABLE)}
    for (state, event), (to, step) in ROWS.items():
        assert (step in (Step.APPLY, Step.UNDO)) == (to in ENDS.values() and state is not to)
        assert (step in (Step.WAIT, Step.REFUSE)) <= (state is to)
        assert (to is State.GONE) <= (event is Event.DURABLE)


def test_what_is_full_takes_no_more() -> None:
    """Each limit says its name; what was prepared before a start is kept all the same."""
    prepared: PreparedTransactions[str] = PreparedTransactions(LIMITS)
    for id_ in IDS[:3]:
        assert prepared.amqp_error(id_, "u", 30) is None
        prepared.add(one(id_, size=30))
    assert condition(prepared.amqp_error(IDS[0], "u")) == PRECONDITION_FAILED
    assert prepared.amqp_error(IDS[0], "other") is None
    for user, size, name in (
        ("u", 1, "amqp.prepared_of_user_max"),
        ("other", 11, "amqp.prepared_bytes_max"),
    ):
        refusal = prepared.amqp_error(IDS[3], user, size)
        assert refusal is not None
        assert refusal.condition == LIMIT_EXCEEDED
        assert name in refusal.description
    prepared.add(one(IDS[3], "other"))
    refusal = prepared.amqp_error(IDS[4], "third")
    assert refusal is not None
    assert "(amqp.prepared_max)" in refusal.description
    prepared.add(one(IDS[4]))


@pytest.mark.parametrize(
    "text", ["0:00:", "131077:0a1b:01", f"{2**31 - 1}:{'ff' * 64}:{'00' * 64}"]
)
def test_an_id_has_one_text(text: str) -> None:
    assert GlobalId.parse(text).text == text


@pytest.mark.parametrize(
    "text",
    ["", "1", "1:0a", "1::", "01:0a:", "-1:0a:", "1:0A:", "1:a:", f"{2**31}:0a:",
     f"1:{'ff' * 65}:", f"1:00:{'ff' * 65}", "1:0a:01 ", "x:0a:01"],
)  # fmt: skip
def test_what_is_no_id_is_refused_with_how_one_looks(text: str) -> None:
    with pytest.raises(InvalidRequest, match="131077:0a1b:01"):
        GlobalId.parse(text)


Key = tuple[str, str]


class Model(RuleBasedStateMachine):
    """A log that becomes durable step by step, restarts, managers that ask again."""

    def __init__(self) -> None:
        super().__init__()
        self.subject: PreparedTransactions[str] = PreparedTransactions(Limits(99, 99, 99))
        self.waiting: list[tuple[Key, str]] = []  # records that aren't durable: whose, what
        self.log: dict[Key, list[str]] = {key: [] for key in KEYS}

    def found(self, key: Key) -> Prepared[str] | None:
        user, id_ = key
        [*found] = (one for one in self.subject.get(id_) if one.facts.user == user)
        assert len(found) <= 1
        return found[0] if found else None

    @rule(key=st.sampled_from(KEYS))
    def prepare(self, key: Key) -> None:
        user, id_ = key
        known = self.found(key) is not None
        assert (self.subject.amqp_error(id_, user) is not None) == known
        if not known:
            self.subject.add(one(id_, user))
            self.waiting.append((key, "prepared"))

    @rule(key=st.sampled_from(KEYS), event=st.sampled_from(sorted(ENDS)))
    def end(self, key: Key, event: Event) -> None:
        found = self.found(key)
        if found is None:
            assert len(self.log[key]) % 2 == 0
            return
        before = found.state
        match found.step(event):
            case Step.APPLY | Step.UNDO:
                assert before is State.PREPARED
                self.waiting.append((key, event.value))
            case Step.WAIT:
                assert before in (State.PREPARING, ENDS[event])
            case Step.REFUSE:
                assert before in ENDS.values()
                assert before is not ENDS[event]
                assert before in ended_otherwise(found).description
            case other:
                raise AssertionError(other)

    @precondition(lambda self: self.waiting)
    @rule()
    def durable(self) -> None:
        key, what = self.waiting.pop(0)
        found = self.found(key)
        assert found is not None
        self.subject.durable(found)
        self.log[key].append(what)

    @rule()
    def restart(self) -> None:
        """Restart: records that aren't durable are lost."""
        self.waiting.clear()
        self.subject = PreparedTransactions(Limits(99, 99, 99))
        for (user, id_), records in self.log.items():
            if len(records) % 2:
                restored = one(id_, user)
                self.subject.add(restored)
                self.subject.durable(restored)

    @invariant()
    def one_end_for_each(self) -> None:
        """Records alternate; listed is what the log has open; nothing durable twice."""
        for records in self.log.values():
            assert all((what == "prepared") == (nth % 2 == 0) for nth, what in enumerate(records))
        open_ = {key for key, records in self.log.items() if len(records) % 2}
        assert {(found.facts.user, found.id) for found in self.subject.listed()} == open_
        assert all(found.state in LISTED for found in self.subject.listed())


def test_an_end_can_not_become_durable_twice() -> None:
    prepared: PreparedTransactions[str] = PreparedTransactions(LIMITS)
    first = one(IDS[0])
    prepared.add(first)
    prepared.durable(first)
    with pytest.raises(IllegalTransition):
        prepared.durable(first)


TestModel = Model.TestCase
TestModel.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)


def test_work_that_a_clock_ahead_of_ours_has_recorded_is_asked_for_at_once() -> None:
    """The log may come from a machine whose clock was hours ahead: nothing waits for that time."""
    prepared: PreparedTransactions[str] = PreparedTransactions(LIMITS)
    now, second, hour = 10**15, 10**6, 3_600 * 10**6
    times = {"old": now - hour, "due": now - second, "young": now - second + 1, "ahead": now + hour}
    by_id = {branch_id(decision_id(bytes((nth,))), "main"): name for nth, name in enumerate(times)}
    for id_, name in by_id.items():
        added = Prepared(id_, Facts("u", times[name], (), 0, 0, 1), "work")
        prepared.add(added)
        if name != "old":
            prepared.durable(added)
    waiting = [by_id[one.id] for one in prepared.undecided(now, second)]
    assert waiting == ["due", "ahead"]
    assert [is_young(at, now, second) for at in times.values()] == [False, False, True, False]
