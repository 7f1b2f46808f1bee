"""Transactions whose work is in another gateway's log: as if they were local, and what becomes of
them where the owner, the gateway or the client is lost, at each moment.

That they are as local ones is shown by the tests of those, too, with `RELAYED=1`.
"""

import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from gateway_fields import make
from gateway_fleet import Fleet
from gateway_frames import Frame, frame_of, number
from gateway_jms import QUEUE, Jms, source, text_message, text_of
from gateway_management import Manager
from gateway_peer import Peer
from gateway_process import Gateway, Settings, past, until
from gateway_transactions import condition_of, transacted

Make = Callable[..., Gateway]
UNKNOWN = "amqp:transaction:unknown-id"
ILLEGAL_STATE = "amqp:illegal-state"
LIMIT_EXCEEDED = "amqp:resource-limit-exceeded"
FORCED = "amqp:link:detach-forced"
CREDIT = 2_000  # that a producer has at first


class Work:
    """A client's session at the gateway that doesn't own `orders`: a message of the queue
    `orders.from` was taken, and it can send to `orders.to`."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        with Jms(fleet.orders.port) as there:
            there.publish("orders.from", "coin", capabilities=QUEUE)
        self.jms = Jms(fleet.main.port)
        self.session = session = transacted(self.jms)
        self.to = session.producer("orders.to", QUEUE)
        session.consumer("from", source("orders.from", QUEUE), 1)
        [self.coin] = session.transfers(1)

    def do(self) -> None:
        """Move the message from one queue to the other: the owner knows of it."""
        self.session.retire(self.coin)
        [posted] = self.session.post(self.to, "coin")
        assert condition_of(self.session.answer(posted)) == ""

    def doubted(self) -> None:
        """The commit isn't answered: the controller's link ends."""
        [detach] = self.session.until("detach")
        assert (detach["handle"], detach.error) == (0, FORCED)
        assert "isn't known" in str(detach["error"]["description"])


@contextmanager
def working(fleet: Fleet) -> Iterator[Work]:
    work = Work(fleet)
    with work.jms:
        yield work


def coins(gateway: Gateway) -> Counter[str]:
    """The coins in both queues, by their owner."""
    found: Counter[str] = Counter()
    with Jms(gateway.port) as jms:
        session = transacted(jms)
        for name in ("from", "to"):
            handle = session.consumer(name, source(f"orders.{name}", QUEUE), 0)
            jms.credit(10, handle=handle, channel=session.channel, drain=True)
            while (one := session.read()).kind == "transfer":
                assert text_of(one.payload) == "coin"
                found[name] += 1
        assert session.roll_back() == ""
    return found


def lost(fleet: Fleet) -> None:
    """The gateway knows that the owner of `orders` is lost."""
    fleet.main.await_event("relay.lost", len(fleet.main.events("relay.connected")))


def killed(fleet: Fleet) -> None:
    fleet.orders.kill()
    lost(fleet)


def test_a_commit_is_one_in_the_owners_log(fleet: Fleet) -> None:
    with working(fleet) as work:
        work.do()
        assert coins(fleet.orders) == {}  # neither here nor there
        assert work.session.commit() == ""
        assert coins(fleet.orders) == {"to": 1}


def test_a_rollback_undoes_it_there(fleet: Fleet) -> None:
    with working(fleet) as work:
        work.do()
        assert work.session.roll_back() == ""
        assert coins(fleet.orders) == {"from": 1}


def test_transactions_follow_each_other_without_waiting(fleet: Fleet) -> None:
    """Work, commit and the next declare in one go, many times."""
    with working(fleet) as work:
        session = work.session
        for number in range(50):
            session.post(work.to, f"{number}-a", f"{number}-b")
            assert session.commit() == ""
        handle = session.consumer("all", source("orders.to", QUEUE), 100)
        assert session.bodies(100) == [f"{n}-{one}" for n in range(50) for one in "ab"]
        assert handle


def test_messages_of_one_link_may_go_to_two_logs(fleet: Fleet) -> None:
    """A producer without an address names both in one transaction."""
    with working(fleet) as work, Jms(fleet.main.port, "others") as other:
        topics = ("orders.named", "own")
        for nth, topic in enumerate(topics):
            other.subscribed(topic, source(topic, durable=True), handle=nth)
        session = work.session
        relay = session.producer(None)
        for body, commits in (("no", False), ("yes", True)):
            state = make("transactional-state", txn_id=session.id)
            for to in topics:
                session.transfer(relay, text_message(body, to), state=state)
            assert (session.commit() if commits else session.roll_back()) == ""
        for nth, _ in enumerate(topics):
            other.credit(1, handle=nth)
            assert other.bodies(1) == ["yes"]


# Moments at which the owner is lost. Decision 96 has the table.


def test_the_owner_is_away_when_the_work_comes(fleet: Fleet) -> None:
    """Work, and its commit, wait for the next owner, which is the first to hear of them."""
    with working(fleet) as work:
        work.do()
        assert work.session.roll_back() == ""
        killed(fleet)
        work.session.post(work.to, "coin")
        discharge = work.session.send_discharge(fail=False)
        fleet.orders.start()
        assert condition_of(work.session.answer(discharge)) == ""
        assert coins(fleet.orders) == {"from": 1, "to": 1}


def test_a_rollback_needs_no_owner(fleet: Fleet) -> None:
    with working(fleet) as work:
        work.do()
        killed(fleet)
        assert work.session.roll_back() == ""
        [posted] = work.session.post(work.to, "coin")
        assert work.session.roll_back() == ""
        assert condition_of(work.session.answer(posted)) == ""  # it would have been
        fleet.orders.start()
        assert coins(fleet.orders) == {"from": 1}


def test_the_owner_is_lost_with_the_work(fleet: Fleet) -> None:
    """Its work is undone, later work is refused, and so is its commit; the next transaction is
    served."""
    with working(fleet) as work:
        work.do()
        killed(fleet)
        [posted] = work.session.post(work.to, "coin")
        assert condition_of(work.session.answer(posted)) == UNKNOWN
        fleet.orders.start()
        assert work.session.commit() == UNKNOWN
        work.jms.credit(1, handle=2, channel=work.session.channel, count=1)
        [work.coin] = work.session.transfers(1)
        work.do()
        assert work.session.commit() == ""
        assert coins(fleet.orders) == {"to": 1}


def test_an_outcome_that_waited_for_a_lost_owner_is_lost_with_it(fleet: Fleet) -> None:
    """It never heard of the transaction, so another one does; that one has no such delivery."""
    with working(fleet) as work:
        fleet.orders.process.send_signal(signal.SIGSTOP)
        work.session.retire(work.coin)
        [posted] = work.session.post(work.to, "coin")
        work.jms.heard()
        killed(fleet)
        fleet.orders.start()
        assert condition_of(work.session.answer(posted)) in ("", ILLEGAL_STATE)
        assert work.session.commit() == ILLEGAL_STATE
        assert coins(fleet.orders) == {"from": 1}


def test_what_was_taken_in_a_lost_one_comes_again(fleet: Fleet) -> None:
    """It may come before the client has heard; given an outcome in the lost transaction it is held
    until that has ended."""
    with working(fleet) as work:
        work.do()
        work.jms.credit(1, handle=2, channel=work.session.channel, count=1)
        killed(fleet)
        fleet.orders.start()
        [again] = work.session.transfers(1)
        assert text_of(again.payload) == "coin"
        work.session.retire(again)
        work.jms.credit(1, handle=2, channel=work.session.channel, count=2, drain=True)
        work.session.until("flow")
        assert not work.session.came
        assert work.session.commit() == UNKNOWN
        assert coins(fleet.orders) == {"from": 1}


def asked(work: Work) -> None:
    """The gateway has asked the owner, which doesn't read, for the commit."""
    work.fleet.orders.process.send_signal(signal.SIGSTOP)
    work.session.send_discharge(fail=False)
    work.jms.heard()


def test_the_owner_is_lost_before_it_reads_the_commit(fleet: Fleet) -> None:
    """The outcome is unknown, so there is no answer. None of its work is done."""
    with working(fleet) as work:
        work.do()
        asked(work)
        fleet.orders.kill()
        work.doubted()
        fleet.orders.start()
        assert coins(fleet.orders) == {"from": 1}


def test_the_owner_is_lost_before_the_commit_is_durable(tmp_path: Path, own_gateway: Make) -> None:
    """Likewise: its group lingers, and it is killed with it."""
    with (
        Fleet(tmp_path, own_gateway, {"journal": {"linger_ms": 1_000}}) as fleet,
        working(fleet) as work,
    ):
        work.do()
        work.session.send_discharge(fail=False)
        work.jms.heard()
        with Jms(fleet.orders.port) as there:  # a later request is answered later
            there.heard()
        fleet.orders.kill()
        work.doubted()
        fleet.orders.start()
        assert coins(fleet.orders) == {"from": 1}


def test_the_answer_of_an_owner_that_has_gone_since_counts(
    tmp_path: Path, own_gateway: Make
) -> None:
    """It has committed and said so, and is killed before the gateway reads that."""
    with (
        Fleet(tmp_path, own_gateway, {"journal": {"linger_ms": 1_000}}) as fleet,
        working(fleet) as work,
    ):
        work.do()
        discharge = work.session.send_discharge(fail=False)
        work.jms.heard()
        with Jms(fleet.orders.port) as there:
            there.subscribed("to", source("orders.to", QUEUE))
            fleet.main.process.send_signal(signal.SIGSTOP)
            there.credit(1)
            assert there.bodies(1, accept=False) == ["coin"]
        fleet.orders.kill()
        fleet.main.process.send_signal(signal.SIGCONT)
        assert condition_of(work.session.answer(discharge)) == ""
        fleet.orders.start()
        assert coins(fleet.orders) == {"to": 1}


def test_an_owner_that_is_paused_commits_nothing_that_was_given_up(
    tmp_path: Path, own_gateway: Make
) -> None:
    """It is silent for a lease, so the gateway is done with it; when it goes on it finds what was
    sent and its peer gone."""
    with (
        Fleet(tmp_path, own_gateway, {"owner": {"lease_ms": 4_000}}) as fleet,
        working(fleet) as work,
    ):
        work.do()
        fleet.orders.process.send_signal(signal.SIGSTOP)
        [posted] = work.session.post(work.to, "coin")
        discharge = work.session.send_discharge(fail=False)
        lost(fleet)
        assert condition_of(work.session.answer(posted)) == UNKNOWN
        assert condition_of(work.session.answer(discharge)) == UNKNOWN
        fleet.orders.process.send_signal(signal.SIGCONT)
        fleet.main.await_event("relay.connected", 2)
        assert coins(fleet.orders) == {"from": 1}


def test_an_owner_that_is_paused_may_have_committed(tmp_path: Path, own_gateway: Make) -> None:
    """It reads the commit when it goes on: the outcome was unknown, and the work is done once."""
    with (
        Fleet(tmp_path, own_gateway, {"owner": {"lease_ms": 4_000}}) as fleet,
        working(fleet) as work,
    ):
        work.do()
        asked(work)
        work.doubted()
        fleet.orders.process.send_signal(signal.SIGCONT)
        fleet.main.await_event("relay.connected", 2)
        assert sorted(coins(fleet.orders)) in (["from"], ["to"])


def test_the_gateway_is_lost(fleet: Fleet) -> None:
    """The owner finds its peer gone, and rolls back."""
    with working(fleet) as work:
        work.do()
        fleet.main.kill()
        assert coins(fleet.orders) == {"from": 1}


@pytest.mark.parametrize("end", ["socket", "controller", "session"])
def test_the_client_is_lost(fleet: Fleet, end: str) -> None:
    with working(fleet) as work:
        work.do()
        match end:
            case "socket":
                work.jms.socket.close()
            case "controller":
                work.jms.detach(closed=True, channel=work.session.channel)
                work.session.until("detach")
            case "session":
                work.jms.send(frame_of("end", channel=work.session.channel))
                work.session.until("end")
        until(lambda: coins(fleet.orders) == {"from": 1}, "the owner rolls back")


def test_a_client_that_waits_for_our_word_has_what_it_held_again(fleet: Fleet) -> None:
    """The commit settles messages that the client doesn't settle itself; after a rollback it may
    give another outcome."""
    with working(fleet) as work:
        session = work.session
        session.retire(work.coin, settled=False)
        assert session.roll_back() == ""
        assert coins(fleet.orders) == {}  # it has it
        session.retire(work.coin, settled=False)
        discharge = session.send_discharge(fail=False)
        settled = session.jms.read()
        while settled.kind != "disposition" or settled["role"]:
            settled = session.jms.read()
        assert settled["settled"]
        assert condition_of(session.answer(discharge)) == ""
        assert coins(fleet.orders) == {}


def test_who_waits_for_our_word_on_a_lost_one_is_ended(fleet: Fleet) -> None:
    with working(fleet) as work:
        [posted] = work.session.post(work.to, "coin")
        assert condition_of(work.session.answer(posted)) == ""
        work.session.retire(work.coin, settled=False)
        work.jms.heard()
        killed(fleet)
        [detach] = work.session.until("detach")
        assert detach.error == FORCED
        assert work.session.commit() == UNKNOWN


def test_nothing_is_kept_for_a_client_that_has_gone(fleet: Fleet) -> None:
    """The gateway doesn't look for an owner on its behalf."""
    with working(fleet) as work:
        work.do()
        work.jms.send(frame_of("close"))
        work.session.until("close")
    with Jms(fleet.main.port) as asking:
        reader = Manager(Peer(fleet.main.port, "reader"))
        reader.done("READ", "queue", "orders.from")
        reader.peer.close()
        asking.heard()
    fleet.orders.kill()
    fleet.main.await_event("relay.lost")
    past(time.time() + 1.0)  # it looks several times a second
    assert not fleet.main.events("relay.waits")
    fleet.orders.start()
    assert coins(fleet.main) == {"from": 1}


# Limits: those of the owner, for each client.


def test_the_owner_bounds_it_as_if_it_were_local(tmp_path: Path, own_gateway: Make) -> None:
    limits = {"amqp": {"transaction_bytes_max": 20_000, "transaction_timeout_seconds": 1}}
    with Fleet(tmp_path, own_gateway, limits) as fleet, working(fleet) as work:
        for said in ("", "amqp:resource-limit-exceeded"):
            [posted] = work.session.post(work.to, "x" * 15_000)
            assert condition_of(work.session.answer(posted)) == said
        assert work.session.commit() == "amqp:resource-limit-exceeded"
        work.do()
        assert work.session.commit() == ""
        [posted_late] = work.session.post(work.to, "late")
        assert condition_of(work.session.answer(posted_late)) == ""
        past(time.time() + 1.2)
        assert work.session.commit() == "amqp:transaction:timeout"
        assert coins(fleet.orders) == {"to": 1}


@contextmanager
def declining(
    tmp_path: Path, own_gateway: Make, settings: Settings | None = None
) -> Iterator[Work]:
    """The owner has one transaction of each client, no more, and this is it."""
    fleet = Fleet(tmp_path, own_gateway, settings)
    fleet.orders.environment["DISTRIBUTARY_AMQP_TRANSACTIONS_MAX"] = "1"
    with fleet, working(fleet) as work:
        work.do()
        yield work


def test_an_owner_that_declined_is_lost(tmp_path: Path, own_gateway: Make) -> None:
    """With it goes what it has, and not once more what it never had."""
    with declining(tmp_path, own_gateway) as work:
        more = transacted(work.jms)
        [posted] = more.post(more.producer("orders.to", QUEUE), "no")
        assert condition_of(more.answer(posted)) == LIMIT_EXCEEDED
        killed(work.fleet)
        assert more.commit() == LIMIT_EXCEEDED
        assert work.session.commit() == UNKNOWN
        work.fleet.orders.start()
        assert coins(work.fleet.main) == {"from": 1}
        assert not work.fleet.main.events("gateway.bug")


def failed(work: Work, coins: int) -> str:
    """Its first work fails, with this condition: what it has of the other log is held until its
    end. So many coins may come to its consumer beside the first."""
    state = make("transactional-state", txn_id=work.session.id)
    nowhere = text_message("for nobody", "x" * 10_000)
    posted = work.session.transfer(work.session.producer(None), nowhere, state=state)
    condition = condition_of(work.session.answer(posted))
    assert condition
    work.jms.credit(coins, handle=2, channel=work.session.channel, count=1)
    return condition


def test_what_one_that_failed_holds_has_bounds(tmp_path: Path, own_gateway: Make) -> None:
    """More is given back at once, as of a local one."""
    limits = {"amqp": {"transaction_bytes_max": 2_000}}
    with Fleet(tmp_path, own_gateway, limits) as fleet, working(fleet) as work:
        with Jms(fleet.orders.port) as there:
            there.publish("orders.from", *["coin"] * 3, capabilities=QUEUE)
        condition = failed(work, 7)
        for one in (work.coin, *work.session.transfers(3)):
            work.session.retire(one)
            work.session.came.extend(f for f in work.jms.heard() if f.kind == "transfer")
        assert work.session.bodies(4) == ["coin"] * 4
        assert work.session.commit() == condition


def test_what_one_that_failed_holds_has_its_time(tmp_path: Path, own_gateway: Make) -> None:
    """And so has what comes after that."""
    limits = {"amqp": {"transaction_timeout_seconds": 1}}
    with Fleet(tmp_path, own_gateway, limits) as fleet, working(fleet) as work:
        condition = failed(work, 3)
        for _ in range(3):
            work.session.retire(work.coin)
            [work.coin] = work.session.transfers(1)
        assert work.session.commit() == condition


@pytest.mark.parametrize("given_back", [False, True])
def test_a_consumer_leaves_when_nothing_is_held(
    tmp_path: Path, own_gateway: Make, given_back: bool
) -> None:
    """Its outcome waited for the owner's transaction, which declined it or took too long."""
    limits = {"amqp": {"transaction_timeout_seconds": 1}} if given_back else None
    with declining(tmp_path, own_gateway, limits) as work:
        with Jms(work.fleet.orders.port) as there:
            there.publish("orders.from", "coin", capabilities=QUEUE)
        more = transacted(work.jms)
        more.consumer("more", source("orders.from", QUEUE), 1)
        [coin] = more.transfers(1)
        work.fleet.orders.process.send_signal(signal.SIGSTOP)
        more.retire(coin)
        work.jms.detach(closed=True, handle=more.links, channel=more.channel)
        work.jms.heard()
        work.fleet.orders.process.send_signal(signal.SIGCONT)
        if not given_back:
            assert more.roll_back() == ""
        [detach] = more.until("detach")
        assert (detach["handle"], detach.error) == (more.links, "")
        assert work.session.roll_back() == ""
        assert coins(work.fleet.orders) == {"from": 2}


def granted(frames: Iterable[Frame], handle: int) -> list[int]:
    """How many messages a producer could have sent so far, by each flow for it."""
    flows = [one for one in frames if one.kind == "flow" and one["handle"] == handle]
    return [number(one["delivery-count"] or 0) + number(one["link-credit"]) for one in flows]


def test_credit_of_what_was_sent_settled_comes_back(fleet: Fleet) -> None:
    """To a producer without an address, whose owner is lost before it has read that."""
    with Jms(fleet.main.port) as jms:
        session = transacted(jms)
        relay = session.producer(None)
        state = make("transactional-state", txn_id=session.id)
        message = text_message("no", "orders.named")
        posted = session.transfer(relay, message, state=state)
        assert condition_of(session.answer(posted)) == ""
        fleet.orders.process.send_signal(signal.SIGSTOP)
        for settled in (True, False, True):
            session.transfer(relay, message, state=state, settled=settled)
        session.jms.heard()
        killed(fleet)
        until(lambda: max(granted([session.read()], relay), default=0) == CREDIT + 4, "all of it")
        assert not any(one > CREDIT + 4 for one in granted(jms.heard(), relay))


def test_credit_of_what_was_answered_in_part_comes_back_once(
    tmp_path: Path, own_gateway: Make
) -> None:
    """The owner takes two messages at a time, and is lost in the middle of many."""
    count, fleet = 1_000, Fleet(tmp_path, own_gateway)
    fleet.orders.environment["DISTRIBUTARY_AMQP_PRODUCER_CREDIT"] = "2"
    with fleet, working(fleet) as work:
        work.do()
        session = work.session
        relay = session.producer(None)
        state = make("transactional-state", txn_id=session.id)
        message = text_message("no", "orders.named")
        fleet.main.process.send_signal(signal.SIGSTOP)  # it reads all of them at once
        first, *_, last = [session.transfer(relay, message, state=state) for _ in range(count)]
        fleet.main.process.send_signal(signal.SIGCONT)
        assert condition_of(session.answer(first)) == ""
        fleet.orders.process.send_signal(signal.SIGSTOP)
        killed(fleet)
        assert condition_of(session.answer(last)) in ("", UNKNOWN)  # nearly always this
        session.transfer(relay, message, state=state)
        assert granted(work.jms.heard(), relay) == [CREDIT + count + 1]


def test_one_that_failed_before_says_why(tmp_path: Path, own_gateway: Make) -> None:
    """Its first work in the other log comes after that."""
    limits = {"amqp": {"transaction_bytes_max": 20_000}}
    with Fleet(tmp_path, own_gateway, limits) as fleet, working(fleet) as work:
        for to in (work.session.producer("own-to", QUEUE), work.to):
            [posted] = work.session.post(to, "x" * 30_000)
            assert condition_of(work.session.answer(posted)) == LIMIT_EXCEEDED
        assert work.session.commit() == LIMIT_EXCEEDED
