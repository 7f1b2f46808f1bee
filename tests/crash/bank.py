"""A bank whose money is messages: coins lie in two queues, and each transfer is one transaction
that takes coins out of one and puts them into the other. However it ends, no coin is lost or made.

One client, blocking, in turns. What it says is what the Qpid JMS client says.
"""

import random
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pyarrow.parquet as pq
from deltalake import DeltaTable
from gateway_frames import Frame
from gateway_jms import QUEUE, Jms, source, text_of
from gateway_transactions import Transacted, transacted

#: Where a gateway listens, if nothing else is said.
LOCAL = "127.0.0.1"
ACCOUNTS = ("bank-a", "bank-b")
COINS = 40
#: Settings by which no coin is given up, however often its taker dies or rolls back.
KEPT: dict[str, dict[str, object]] = {"subscription": {"delivery_attempts_max": 0}}
#: Coins of one transfer.
TRANSFER_MAX = 6
#: Seconds that an answer may take. An owner that was killed gives none until it is started again,
#: which the test does when the bank has given it up.
ANSWER_SECONDS = 5.0


class Bank:
    """`gone` says whether the gateway has ended, or does: then a transfer may end anyhow."""

    def __init__(self, draw: random.Random, gone: Callable[[], bool]) -> None:
        self._draw, self._gone = draw, gone
        self._jms: Jms | None = None
        self._session: Transacted
        self._links: dict[str, tuple[int, int]] = {}  #: account -> handles: producer, consumer
        self._counts: dict[str, int] = {}  #: account -> the delivery-count of its consumer
        self.committed = 0

    def open(self, port: int, host: str = LOCAL) -> None:
        """Connect; the first time all the money is put into one account, in one transaction."""
        self.close()
        self._jms = Jms(port, host=host)
        self._jms.socket.settimeout(ANSWER_SECONDS)  # the stimulus: it gives up
        self._session = session = transacted(self._jms)
        self._links, self._counts = {}, dict.fromkeys(ACCOUNTS, 0)
        for account in ACCOUNTS:
            to = session.producer(account, QUEUE)
            self._links[account] = to, session.consumer(account, source(account, QUEUE), 0)

    def fill(self) -> None:
        """All the money that there will ever be."""
        to, _ = self._links[ACCOUNTS[0]]
        self._session.post(to, *map(str, range(COINS)))
        assert self._session.commit() == ""

    def close(self) -> None:
        if self._jms is not None:
            self._jms.socket.close()
            self._jms = None

    def turn(self) -> None:
        """One transfer, or an attempt at one; nothing while the gateway is gone."""
        if self._jms is None:
            return
        try:
            self._transfer()
        except (AssertionError, OSError):
            self.close()
            if not self._gone():
                raise

    def goes_on(self) -> bool:
        """One more turn; True, to stand in a condition."""
        self.turn()
        return True

    def _transfer(self) -> None:
        draw, session = self._draw, self._session
        giver, taker = draw.sample(ACCOUNTS, 2)
        coins = self._take(giver, draw.randint(1, TRANSFER_MAX))
        to, _ = self._links[taker]
        for coin in coins:
            session.retire(coin)
            session.post(to, text_of(coin.payload))
        if draw.random() < 0.2:
            assert session.roll_back() == ""
        else:
            self._commit(session, giver, taker, len(coins))
            self.committed += 1

    def _commit(self, session: Transacted, giver: str, taker: str, count: int) -> None:
        """So many coins go from one account to the other."""
        del giver, taker, count
        assert session.commit() == ""

    def _take(self, account: str, count: int) -> list[Frame]:
        """So many coins, or as many as there are."""
        session, (_, handle) = self._session, self._links[account]
        session.jms.credit(count, handle=handle, channel=session.channel,
                           count=self._counts[account], drain=True)  # fmt: skip
        self._counts[account] += count
        while len(session.came) < count:
            one = session.read()
            if one.kind == "transfer":
                session.came.append(one)
            elif one.kind == "flow" and one["drain"]:
                break
        return session.transfers(len(session.came))

    def audit(self) -> None:
        """Take all coins out, and put none back: each is there once."""
        found: Counter[object] = Counter()
        for account in ACCOUNTS:
            while coins := self._take(account, COINS):
                found.update(text_of(coin.payload) for coin in coins)
        assert self._session.roll_back() == ""
        assert found == Counter(map(str, range(COINS))), found


@cache
def owed(file: str) -> int:
    """How many coins more lie in the accounts by the rows of this data file. It never changes."""
    if "/record=message/" in file:
        topics = pq.ParquetFile(file).read(columns=["topic"])["topic"].to_pylist()
        return sum(topic.endswith(ACCOUNTS) for topic in topics)
    if "/record=settlement/" in file:
        rows = pq.ParquetFile(file).read(columns=["topic", "final", "sequences"]).to_pylist()
        final = [row for row in rows if row["final"] and row["topic"].endswith(ACCOUNTS)]
        return -sum(len(row["sequences"]) for row in final)
    return 0


def check_versions(home: Path) -> int:
    """In each version of the log there is all the money, or none yet. How many versions had it."""
    path = str(home / "tables" / "topic_log")
    sums = [
        sum(map(owed, DeltaTable(path, version=version).file_uris()))
        for version in range(DeltaTable(path).version() + 1)
    ]
    assert set(sums) <= {0, COINS}, sums
    assert sums == sorted(sums), sums  # once it is there, it stays
    return sums.count(COINS)
