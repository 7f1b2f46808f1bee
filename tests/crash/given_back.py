"""What the log of a home says was given back. Only that tells, after a stop that was cut short,
what its gateway had taken back durably from what it has forgotten that it had handed out."""

from collections import Counter
from pathlib import Path

from deltalake import DeltaTable
from gateway_links import decoded


def given_back(home: Path) -> Counter[tuple[str, str]]:
    """How often each message of each subscription is in the table as released. The gateway is
    stopped, so the table has all of the log."""
    table = DeltaTable(home / "tables" / "topic_log")
    messages = table.to_pyarrow_table(
        filters=[("record", "=", "message")], columns=["sequence", "message"]
    )
    names = {row["sequence"]: _name(row["message"]) for row in messages.to_pylist()}
    settlements = table.to_pyarrow_table(
        filters=[("record", "=", "settlement")], columns=["subscription", "outcome", "sequences"]
    )
    return Counter(
        (row["subscription"].rsplit("/", 1)[-1], names[sequence])
        for row in settlements.to_pylist()
        if row["outcome"] == "released"
        for sequence in row["sequences"]
    )


def _name(message: bytes) -> str:
    """What the publisher called it: the first word of its body."""
    return str(decoded(message).body).split(" ", 1)[0]
