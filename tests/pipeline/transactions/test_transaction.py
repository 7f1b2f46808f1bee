"""Transactions of a connection, against a model that keeps plain lists."""

from itertools import count, product

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from distributary.pipeline.model.amqp_error import LIMIT_EXCEEDED, PRECONDITION_FAILED, AmqpError
from distributary.pipeline.transactions.transaction import (
    EACH_BYTES,
    ROWS,
    RUN_BYTES,
    TIMED_OUT,
    Ended,
    Event,
    Held,
    Limits,
    State,
    Step,
    Transactions,
    unknown,
)

LIMITS = Limits(transactions_max=3, bytes_max=10_000, bytes_together_max=16_000)
HELD_MAX = 1 << 30
LATE = AmqpError(TIMED_OUT, "too late")
BAD = AmqpError("amqp:unauthorized-access", "not for you")


def fresh(limits: Limits = LIMITS) -> Transactions[str, str]:
    return Transactions(limits, count(1), Held(HELD_MAX))


def begun(transactions: Transactions[str, str], controller: int = 0) -> int:
    number = transactions.declare(controller)
    assert isinstance(number, int)
    return number


def work(ended: Ended[str, str]) -> tuple[Step, list[str], list[str]]:
    return ended.step, ended.work.posted, ended.work.retired


def test_every_state_has_a_row_for_every_event_until_it_is_gone() -> None:
    """And only what didn't fail can be applied."""
    assert set(ROWS) == set(product(set(State) - {State.GONE}, Event))
    rows = {step: [row for row, (_, one) in ROWS.items() if one is step] for step in Step}
    assert rows[Step.APPLY] == [(State.IDLE, Event.COMMIT), (State.OPEN, Event.COMMIT)]
    assert rows[Step.PREPARE] == [(State.IDLE, Event.PREPARE), (State.OPEN, Event.PREPARE)]
    assert {to for (at, _), (to, _) in ROWS.items() if at is State.DOOMED} == {
        State.DOOMED,
        State.GONE,
    }


def test_a_commit_gives_all_of_the_work_in_its_order() -> None:
    """And the transaction is gone with it."""
    transactions = fresh()
    number = begun(transactions)
    transactions.post(number, "a", 1, 10)
    transactions.retire(number, "x", 1)
    transactions.post(number, "b", 1, 10)
    ended = transactions.commit(number)
    assert work(ended) == (Step.APPLY, ["a", "b"], ["x"])
    assert ended.amqp_error is None
    assert number not in transactions
    assert f"{number:016x}" in unknown(number).description


def test_the_commit_of_one_with_a_global_id_prepares_it() -> None:
    """Its rollback is one all the same; what failed is never prepared; an id is given once."""
    transactions = fresh()
    numbers = [begun(transactions) for _ in range(3)]
    for number in numbers:
        transactions.post(number, "p", 1, 1)
        assert transactions.name(number, f"1:{number:02x}:") is None
        assert transactions.name(number, f"1:{number:02x}:") is None
    again = transactions.name(numbers[0], "1:ff:")
    assert again is not None
    assert again.condition == PRECONDITION_FAILED
    ended = transactions.commit(numbers[0])
    assert (ended.step, ended.global_id, ended.work.posted) == (Step.PREPARE, "1:01:", ["p"])
    assert transactions.roll_back(numbers[1]).step is Step.UNDO
    transactions.spoil(numbers[2], BAD)
    assert transactions.name(numbers[2], "1:03:") == BAD
    ended = transactions.commit(numbers[2])
    assert (ended.step, ended.amqp_error) == (Step.UNDO, BAD)


def test_a_rollback_undoes_all_of_it() -> None:
    """So does the loss of its controller; other controllers' transactions live on."""
    transactions = fresh()
    first, second, third = (begun(transactions, controller) for controller in (1, 1, 2))
    for number in (first, second, third):
        transactions.post(number, f"p{number}", 1, 1)
        transactions.retire(number, f"r{number}", 1)
    assert work(transactions.roll_back(first)) == (Step.UNDO, ["p1"], ["r1"])
    assert [work(one) for one in transactions.lose(1)] == [(Step.UNDO, ["p2"], ["r2"])]
    assert third in transactions
    assert second not in transactions


def test_a_spoiled_transaction_fails_with_the_first_reason() -> None:
    """Its retired deliveries stay retired until then; messages posted to it are refused."""
    transactions = fresh()
    number = begun(transactions)
    transactions.post(number, "a", 1, 10)
    transactions.retire(number, "x", 1)
    transactions.spoil(number, BAD)
    transactions.spoil(number, LATE)
    assert transactions.post(number, "b", 1, 10) == BAD
    assert transactions.retire(number, "y", 1) is None
    ended = transactions.commit(number)
    assert work(ended) == (Step.UNDO, [], ["x", "y"])
    assert ended.amqp_error == BAD


def test_what_is_stored_already_is_work_without_messages() -> None:
    """The commit waits for it, as it may not be durable; a doomed transaction refuses it."""
    transactions = fresh()
    number, doomed = begun(transactions), begun(transactions)
    assert not transactions.works(number)
    assert transactions.repeat(number) is None
    assert transactions.works(number)
    assert transactions.held_bytes == 0
    transactions.spoil(doomed, BAD)
    assert transactions.repeat(doomed) == BAD
    ended = transactions.commit(number)
    assert (*work(ended), bool(ended.work)) == (Step.APPLY, [], [], True)
    assert not transactions.roll_back(doomed).work


def test_work_may_be_here_and_in_other_logs() -> None:
    """A doomed transaction takes no more of either."""
    transactions = fresh()
    number = begun(transactions)
    assert transactions.relay(number) is None
    assert not transactions.works(number)
    transactions.post(number, "a", 1, 10)
    assert transactions.works(number)
    assert transactions.relay(number) is None
    transactions.spoil(number, BAD)
    assert transactions.reason(number) == BAD
    assert transactions.relay(number) == BAD
    assert transactions.post(number, "b", 1, 10) == BAD
    ended = transactions.commit(number)
    assert (*work(ended), ended.amqp_error) == (Step.UNDO, [], [], BAD)


def test_what_its_client_has_ended_may_end_later() -> None:
    """Its client knows it no more; it is decided here, or lost with its controller."""
    transactions = fresh()
    first, second = begun(transactions), begun(transactions)
    for number in (first, second):
        transactions.post(number, "a", 1, 10)
        transactions.decide(number, f"1:{number:02x}:")
        transactions.close(number)
        assert number not in transactions
        assert transactions.has(number)
    ended = transactions.commit(first)
    assert (ended.step, ended.decides) == (Step.APPLY, "1:01:")
    assert not transactions.has(first)
    assert [(one.step, one.decides) for one in transactions.lose(0)] == [(Step.UNDO, "1:02:")]


def test_a_rollback_of_a_spoiled_transaction_succeeds() -> None:
    """That is what it can only do."""
    transactions = fresh()
    number = begun(transactions)
    transactions.spoil(number, BAD)
    assert transactions.roll_back(number).amqp_error is None


def test_what_takes_too_long_gives_back_what_it_holds_each_time() -> None:
    """Its commit fails all the same."""
    transactions = fresh()
    number = begun(transactions)
    transactions.post(number, "a", 1, 10)
    transactions.retire(number, "x", 1)
    given_back = transactions.give_up(number, LATE)
    assert (given_back.posted, given_back.retired) == (["a"], ["x"])
    transactions.retire(number, "y", 1)
    assert transactions.give_up(number, LATE).retired == ["y"]
    ended = transactions.commit(number)
    assert work(ended) == (Step.UNDO, [], [])
    assert ended.amqp_error == LATE


def test_a_connection_has_so_many_transactions() -> None:
    """One that ends makes room for another one."""
    transactions = fresh()
    numbers = [begun(transactions) for _ in range(3)]
    refused = transactions.declare(0)
    assert isinstance(refused, AmqpError)
    assert refused.condition == LIMIT_EXCEEDED
    assert "3" in refused.description
    transactions.commit(numbers[1])
    assert begun(transactions) not in numbers


def test_a_transaction_holds_so_many_bytes() -> None:
    """The message that is too much is refused, and so is the commit."""
    transactions = fresh()
    number = begun(transactions)
    most = LIMITS.bytes_max - RUN_BYTES - EACH_BYTES
    assert transactions.post(number, "fits", 1, most) is None
    amqp_error = transactions.post(number, "too much", 1, 0)
    assert amqp_error is not None
    assert amqp_error.condition == LIMIT_EXCEEDED
    assert "transaction_bytes_max" in amqp_error.description
    assert transactions.commit(number).amqp_error == amqp_error
    again = begun(transactions)
    assert transactions.post(again, "fits", 1, most) is None


def test_all_transactions_together_hold_so_many_bytes() -> None:
    """A transaction whose bytes go, by any end, makes room for the others."""
    transactions = fresh()
    first, second = begun(transactions, 1), begun(transactions, 2)
    most = LIMITS.bytes_max - RUN_BYTES - EACH_BYTES
    assert transactions.post(first, "a", 1, most) is None
    amqp_error = transactions.post(second, "b", 1, most)
    assert amqp_error is not None
    assert "unfinished_bytes_max" in amqp_error.description
    transactions.lose(1)
    third = begun(transactions, 2)
    assert transactions.post(third, "c", 1, most) is None


def test_too_many_retired_deliveries_are_given_back_at_once() -> None:
    """With all that the transaction held."""
    transactions = fresh()
    number = begun(transactions)
    most = LIMITS.bytes_max // (RUN_BYTES + EACH_BYTES)
    for nth in range(most):
        assert transactions.retire(number, f"r{nth}", 1) is None
    given_back = transactions.retire(number, "one more", 1)
    assert given_back is not None
    assert len(given_back.retired) == most + 1
    amqp_error = transactions.commit(number).amqp_error
    assert amqp_error is not None
    assert amqp_error.condition == LIMIT_EXCEEDED


def test_deliveries_of_another_log_count_as_our_own() -> None:
    """Deliveries of a failed transaction count, too; a transaction given up holds none."""
    for fails in (False, True):
        transactions = fresh()
        number = begun(transactions)
        assert transactions.relay(number) is None
        if fails:
            transactions.spoil(number, BAD)
        size = RUN_BYTES + EACH_BYTES
        for nth in range(LIMITS.bytes_max // size):
            assert transactions.hold(number, 1) is None
            assert transactions.held_bytes == (nth + 1) * size
        amqp_error = transactions.hold(number, 1)
        assert amqp_error is not None
        assert amqp_error.condition == LIMIT_EXCEEDED
        assert not transactions.give_up(number, amqp_error)
        assert transactions.held_bytes == 0
        assert transactions.commit(number).amqp_error == (BAD if fails else amqp_error)


def test_what_is_gone_can_do_nothing() -> None:
    """The caller asks first; a caller that doesn't has a bug."""
    transactions = fresh()
    number = begun(transactions)
    transactions.commit(number)
    for late in (transactions.commit, transactions.roll_back):
        with pytest.raises(KeyError):
            late(number)


class TransactionsMachine(RuleBasedStateMachine):
    """Random lives of transactions: nothing that was kept is lost, or comes out twice."""

    def __init__(self) -> None:
        super().__init__()
        self.transactions = fresh()
        self.model: dict[int, tuple[int, list[str], list[str], bool]] = {}
        self.things = count()
        self.out: list[str] = []  #: what came out again, by whatever way

    def took(self, posted: list[str], retired: list[str]) -> None:
        self.out += [*posted, *retired]

    @rule(controller=st.integers(0, 2))
    def declare(self, controller: int) -> None:
        number = self.transactions.declare(controller)
        assert isinstance(number, AmqpError) == (len(self.model) == LIMITS.transactions_max)
        if isinstance(number, int):
            assert number not in self.model
            self.model[number] = controller, [], [], True

    def one(self, data: st.DataObject) -> int:
        return data.draw(st.sampled_from(sorted(self.model)))

    @precondition(lambda self: self.model)
    @rule(data=st.data(), size=st.integers(0, 4_000), messages=st.integers(1, 5))
    def post(self, data: st.DataObject, size: int, messages: int) -> None:
        number = self.one(data)
        controller, posted, retired, fine = self.model[number]
        thing = f"p{next(self.things)}"
        if self.transactions.post(number, thing, messages, size) is None:
            assert fine
            posted.append(thing)
        else:
            self.model[number] = controller, [], retired, False

    @precondition(lambda self: self.model)
    @rule(data=st.data(), deliveries=st.integers(1, 40))
    def retire(self, data: st.DataObject, deliveries: int) -> None:
        number = self.one(data)
        controller, posted, retired, _ = self.model[number]
        retired.append(f"r{next(self.things)}")
        given_back = self.transactions.retire(number, retired[-1], deliveries)
        if given_back is not None:
            assert (given_back.posted, given_back.retired) == (posted, retired)
            self.took(posted, retired)
            self.model[number] = controller, [], [], False

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def spoil(self, data: st.DataObject) -> None:
        number = self.one(data)
        controller, _, retired, _ = self.model[number]
        self.transactions.spoil(number, BAD)
        self.model[number] = controller, [], retired, False

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def time_out(self, data: st.DataObject) -> None:
        number = self.one(data)
        controller, posted, retired, _ = self.model[number]
        given_back = self.transactions.give_up(number, LATE)
        assert (given_back.posted, given_back.retired) == (posted, retired)
        self.took(posted, retired)
        self.model[number] = controller, [], [], False

    @precondition(lambda self: self.model)
    @rule(data=st.data(), commit=st.booleans())
    def discharge(self, data: st.DataObject, commit: bool) -> None:
        number = self.one(data)
        _, posted, retired, fine = self.model.pop(number)
        act = self.transactions.commit if commit else self.transactions.roll_back
        ended = act(number)
        assert work(ended) == (Step.APPLY if commit and fine else Step.UNDO, posted, retired)
        assert (ended.amqp_error is None) == (fine or not commit)
        self.took(posted, retired)

    @rule(controller=st.integers(0, 2))
    def lose(self, controller: int) -> None:
        gone = {n: one for n, one in self.model.items() if one[0] == controller}
        for ended in self.transactions.lose(controller):
            _, posted, retired, _ = gone.pop(ended.number)
            assert work(ended) == (Step.UNDO, posted, retired)
            self.took(posted, retired)
            del self.model[ended.number]
        assert not gone

    @invariant()
    def nothing_came_out_twice(self) -> None:
        assert len(self.out) == len(set(self.out))
        assert all(number in self.transactions for number in self.model)

    @invariant()
    def who_holds_nothing_counts_for_nothing(self) -> None:
        """It counts what it holds: with nothing held all of the room is free again."""
        if not any(posted or retired for _, posted, retired, _ in self.model.values()):
            assert self.transactions.held_bytes == 0


TestTransactionsMachine = TransactionsMachine.TestCase
TestTransactionsMachine.settings = settings(max_examples=150, stateful_step_count=40)


def test_all_connections_hold_so_much_together() -> None:
    """Bytes that one holds another can't; ended, given up and spoiled work counts no more."""
    held = Held(12_000)
    mine, theirs = (Transactions[str, str](LIMITS, count(begin), held) for begin in (1, 100))
    number, other = begun(mine), begun(theirs)
    assert mine.post(number, "a", 1, 6_000) is None
    amqp_error = theirs.post(other, "b", 1, 6_000)
    assert amqp_error is not None
    assert "amqp.transactions_together_bytes_max" in amqp_error.description
    assert theirs.roll_back(other).step is Step.UNDO
    mine.spoil(number, BAD)
    assert held.bytes == 0
    again = begun(theirs)
    assert theirs.post(again, "b", 1, 6_000) is None
    theirs.retire(again, "c", 10)
    assert [ended.number for ended in theirs.lose(0)] == [again]
    assert held.bytes == 0
