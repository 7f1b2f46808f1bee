"""One fault of each kind in one home: the check for it names it, and no other check says a word."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

import pytest
from delta.tables import DeltaTable
from spark_log import LogWriter, encoded
from spark_place import Place

from distributary.jobs.views.audit_job import main
from distributary.jobs.views.audit_run import Settings, build, summary
from distributary.pipeline.transforms.audit.audit_checks import NAMES, Result, check
from distributary.pipeline.transforms.audit.audit_views import VIEWS

A, B = "worker-a/link", "worker-b/link"
FINAL = {
    "accepted": True,
    "released": False,
    "lost": False,
    "modified": False,
    "dead_lettered": True,
}


@dataclass
class Story:
    """The subscription and the messages of one fault, in a log of all."""

    log: LogWriter
    name: str
    published: range
    at: datetime

    def settled(
        self,
        *nth: int,
        floor: int = 0,
        outcome: str = "accepted",
        began: float = 0.0,
        ended: float | None = None,
        consumer: str = A,
        failures: int = 0,
    ) -> None:
        """The nth messages; times are seconds after the publishing, they end a second later."""
        self.log.settle(
            f"global/{self.name}",
            self.name,
            [self.published[one] for one in nth],
            self.published[0] + floor,
            outcome=outcome,
            final=FINAL[outcome],
            consumer=consumer,
            delivery_count=failures,
            delivered_at=self.at + timedelta(seconds=began),
            settled_at=self.at + timedelta(seconds=began + 1 if ended is None else ended),
        )


def lost(story: Story) -> None:
    story.settled(0, 1, 2, floor=4)


def settled_twice(story: Story) -> None:
    """One delivery is recorded twice."""
    story.settled(0, 1, floor=2)
    story.log.next_group()
    story.settled(1, floor=2)


def counted_once(story: Story) -> None:
    """What was given back once is recorded twice."""
    story.settled(0, outcome="released")
    story.log.next_group()
    story.settled(0, outcome="released")


def delivered_after_settlement(story: Story) -> None:
    story.settled(0, floor=1)
    story.log.next_group()
    story.settled(0, floor=1, outcome="released", began=2)


def held_twice(story: Story) -> None:
    story.settled(0, outcome="released", began=0, ended=4)
    story.log.next_group()
    story.settled(0, floor=1, began=3, ended=5, consumer=B)


def not_owed(story: Story) -> None:
    """A message of another topic."""
    [stranger] = story.log.publish("elsewhere", encoded())
    story.log.next_group()
    story.log.settle(f"global/{story.name}", story.name, [stranger], story.published[0])


def out_of_order(story: Story) -> None:
    story.settled(1, began=0)
    story.settled(0, floor=2, began=0.5)


def unfair_share(story: Story) -> None:
    """In one deal one has the second, third and fourth, and the other had credit all the time."""
    story.settled(0, consumer=A)
    story.settled(1, 2, 3, consumer=B)
    story.settled(4, floor=5, consumer=A)


def untimely(story: Story) -> None:
    log = story.log
    [late] = log.publish(story.name, encoded(), expires_at=log.now + timedelta(seconds=1))
    [early] = log.publish(story.name, encoded(), deliver_at=log.now + timedelta(seconds=9))
    began = log.now + timedelta(seconds=2)
    log.next_group()
    log.settle(f"global/{story.name}", story.name, [late], story.published[0], delivered_at=began)
    log.settle(f"global/{story.name}", story.name, [early], story.published[0], delivered_at=began)


def failures_forgotten(story: Story) -> None:
    story.settled(0, outcome="modified")
    story.log.next_group()
    story.settled(0, floor=1, began=2)


def dead_letters(story: Story) -> None:
    """Two are given up, and there is one copy."""
    story.settled(0, 1, floor=2, outcome="dead_lettered")
    story.log.publish("queue://DLQ.global%2Fdead_letters", encoded())


def floor_falls(story: Story) -> None:
    story.settled(0, 1, floor=2)
    story.log.next_group()
    story.settled(2, floor=1, began=2)


def gaps(story: Story) -> None:
    """A sequence that no message has."""
    story.log.sequence += 1
    story.log.publish("elsewhere", encoded())


def sound(story: Story) -> None:
    """Released, given again with turns kept, failed, given up, delivered early by its priority; one
    that failed for the last time, which has two records of one delivery."""
    story.settled(0, outcome="released", consumer=B)
    story.settled(2, outcome="lost", consumer=B)
    story.settled(1, 3, consumer=A)
    story.log.next_group()
    story.settled(0, outcome="modified", began=2)
    story.log.next_group()
    story.settled(0, floor=2, began=5, failures=1, outcome="dead_lettered")
    story.log.publish("queue://DLQ.global%2Fsound", encoded())
    [urgent] = story.log.publish(story.name, encoded(priority=9), priority=9)
    story.log.next_group()
    story.log.settle(f"global/{story.name}", story.name, [urgent], story.published[2])
    story.settled(2, floor=4, began=20)
    story.log.next_group()
    story.settled(4, floor=4, outcome="modified", began=30)
    story.log.next_group()
    story.settled(4, floor=5, outcome="dead_lettered", began=30, ended=32, failures=1)
    story.log.publish("queue://DLQ.global%2Fsound", encoded())


STORIES: dict[str, Callable[[Story], None]] = {
    one.__name__: one
    for one in (
        *(lost, settled_twice, counted_once, delivered_after_settlement, held_twice, not_owed),
        *(
            out_of_order,
            unfair_share,
            untimely,
            failures_forgotten,
            dead_letters,
            floor_falls,
            gaps,
            sound,
        ),
    )
}

#: What is looked for in an example: the subscription of the fault, or what else names it.
ELSEWHERE = {"gaps", "dead_letters", "torn"}


def tell(log: LogWriter) -> None:
    """Every story, one after the other, and three that need more than a story."""
    for name, story in STORIES.items():
        log.next_group()
        log.subscribe(f"global/{name}", name)
        log.next_group()
        published = log.publish(name, *[encoded(str(n)) for n in range(6)])
        at = log.now
        log.next_group()
        story(Story(log, name, published, at))
    log.next_group()
    log.subscribe("global/wrong_selector", "flights", selector="carrier = 'UA'")
    log.subscribe("global/cursors_differ", "flights")
    log.next_group()
    united, delta = log.publish(
        "flights",
        encoded(properties={"carrier": "UA"}),
        encoded(properties={"carrier": "DL"}),
    )
    log.next_group()
    log.settle("global/wrong_selector", "flights", [united, delta], delta + 1)
    log.settle("global/cursors_differ", "flights", [united], delta)
    log.next_group()
    log.subscribe("global/cursors_differ", "flights", event="configured")
    log.commit()


def found(results: list[Result]) -> dict[str, str]:
    """Check -> what its examples name."""
    return {
        one.check.name: ", ".join(
            {str(f.example.get("subscription", f.problem)) for f in one.findings}
        )
        for one in results
        if one.violations
    }


@pytest.mark.timeout(600)
def test_each_fault_is_named_by_its_check_alone(place: Place) -> None:
    """Also where only Spark's tables are at fault: a cursor that counts one too many, an event
    that `subscriptions` lacks."""
    tell(place.log)
    place.materialize()
    tables = place.places.tables
    spark = place.spark
    DeltaTable.forPath(spark, f"{tables}/cursors").update(
        "subscription = 'global/cursors_differ'", {"accepted": "accepted + 1"}
    )
    DeltaTable.forPath(spark, f"{tables}/subscriptions").delete("event = 'configured'")
    results = list(build(spark, Settings(tables)))
    assert found(results) == {name: f"global/{name}" for name in NAMES if name not in ELSEWHERE} | {
        "gaps": "some before it are missing",
        "dead_letters": "no copy in its group",
        "torn": "subscriptions differ from the log",
    }
    assert "16 checks, " in summary(results)


def test_the_command_says_what_and_by_its_exit_code_whether(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    """1 with an example and the rows kept, 0 in one line, 2 before anything is read."""
    log, home = place.log, str(place.home.root)
    log.next_group()
    log.subscribe("global/lost", "lost")
    log.next_group()
    published = log.publish("lost", *[encoded()] * 6)
    log.next_group()
    lost(Story(log, "lost", published, log.now))
    log.commit()
    assert main(["--home", home]) == 2
    assert "materialize` first" in capsys.readouterr().err
    place.materialize()
    kept = str(place.home.root / "kept")
    capsys.readouterr()
    assert main(["--home", home, "--check", "lost", "--json", "--write", kept]) == 1
    [said] = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert (said["check"], said["judged"], said["violations"]) == ("lost", 4, 1)
    assert said["findings"][0]["example"]["sequence"] == published[3]
    assert place.spark.read.format("delta").load(f"{kept}/lost").count() == 1
    assert main(["--home", home, "--check", "gaps"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "audit: 1 check, nothing found"
    assert main(["--home", home, "--since", "2030-01-01"]) == 2
    assert "Nothing was published since" in capsys.readouterr().err


def test_the_sql_is_there_to_be_read(capsys: pytest.CaptureFixture[str]) -> None:
    """Each check begins with its name and what holds, and says what a row is and what to do."""
    for name in (*NAMES, *VIEWS):
        assert main(["--show-sql", name]) == 0
        sql = capsys.readouterr().out
        assert sql.startswith(f"-- {name}: ")
        if name in NAMES:
            assert all(f"-- {word}:" in sql for word in ("Guarantee", "A row", "What to do"))
            assert check(name).judged_sql.startswith("SELECT count(")
    assert main(["--show-sql", "x"]) == main(["--check", "x", "--home", "y"]) == 2
    assert "There is no check 'x'; there are: torn," in capsys.readouterr().err
