"""Transactions as Spark reads them: in every version of the log all of one is there, or nothing."""

import random
from pathlib import Path

from bank import COINS, Bank
from gateway_process import Gateway
from pyspark.sql import SparkSession

#: Versions that are looked at, spread over all; each is a query.
LOOKED_AT = 12
#: What lies in the two accounts: what was put into them without what was taken out.
BALANCE = """
SELECT sum(CASE record WHEN 'message' THEN 1 WHEN 'settlement' THEN IF(final, -size(sequences), 0)
           ELSE 0 END) AS coins
FROM delta.`{path}` VERSION AS OF {version}
WHERE topic LIKE '%bank-_'
"""


def test_the_sum_is_the_same_in_every_version(spark: SparkSession, tmp_path: Path) -> None:
    """Coins move between two queues, each transfer in one transaction; no reader sees one half."""
    gateway = Gateway(tmp_path, {"commit": {"interval_ms": 20}})
    bank = Bank(random.Random(7), lambda: not gateway.running)
    path = gateway.home / "tables" / "topic_log"
    with gateway:
        bank.open(gateway.port)
        bank.fill()
        while bank.committed < 150 or len([*path.glob("_delta_log/*.json")]) <= LOOKED_AT:
            bank.turn()
        bank.close()
        gateway.stop()
    last = spark.sql(f"DESCRIBE HISTORY delta.`{path}`").agg({"version": "max"}).first()[0]
    versions = sorted({last * nth // LOOKED_AT for nth in range(1, LOOKED_AT + 1)})
    assert len(versions) == LOOKED_AT
    sums = [spark.sql(BALANCE.format(path=path, version=one)).first()["coins"] for one in versions]
    assert sums[0] in {None, 0, COINS}, sums  # it may be of before the bank was filled
    assert sums[1:] == [COINS] * (LOOKED_AT - 1), sums
