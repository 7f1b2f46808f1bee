"""One fault of each kind in one home: the check for it names it, and no other check says a word."""

import base64
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, write_deltalake
from google.protobuf import descriptor_pb2
from spark_log import LogWriter, columns_text, encoded, encoded_bytes
from spark_place import Place

from distributary.jobs.views.audit_job import main
from distributary.jobs.views.audit_run import Settings, build, summary
from distributary.pipeline.model.subscription import NOT_OF_SUBSCRIPTIONS
from distributary.pipeline.schemas.column_types import spark_json
from distributary.pipeline.schemas.formats.row_reader import row_reader
from distributary.pipeline.schemas.schema_text import text_of
from distributary.pipeline.schemas.schema_version import Format, Framing, SchemaVersion
from distributary.pipeline.transforms.audit.audit_checks import NAMES, Result, check
from distributary.pipeline.transforms.audit.audit_views import SHOWN

#: The schema of the topics whose typed tables are spoiled.
TYPED = SchemaVersion(
    "typed.*",
    1,
    Format.JSON,
    json.dumps(
        {"type": "object", "properties": {"id": {"type": "integer"}, "who": {"type": "string"}}}
    ),
)
AVRO_OLD = json.dumps({"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}]})
AVRO_NEW = json.dumps(
    {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "who", "type": "string", "default": "nobody"},
        ],
    }
)


def descriptor_set() -> str:
    """An order of Protobuf: a number and a text."""
    said = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="o.proto", package="p", syntax="proto3")
    order = file.message_type.add(name="Order")
    for number, name, kind in ((1, "id", said.TYPE_INT64), (2, "who", said.TYPE_STRING)):
        order.field.add(name=name, number=number, type=kind, label=said.LABEL_OPTIONAL)
    whole = descriptor_pb2.FileDescriptorSet(file=[file])
    return base64.b64encode(whole.SerializeToString()).decode()


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
    """A message that was given back once is recorded twice."""
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
ELSEWHERE = {"gaps", "dead_letters", "torn", "typed"}


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
    log.next_group()
    log.schema("typed.*", text_of(TYPED, columns_text(TYPED.definition)))
    log.next_group()
    bodies = [json.dumps({"id": nth, "who": f"w{nth}"}).encode() for nth in range(8)]
    log.publish("typed.orders", *map(encoded_bytes, (*bodies, b"{")))
    log.commit()


def spoil(place: Place) -> None:
    """A fault of each kind in the typed table: messages 1 to 5 of it."""
    table, rejected = (
        DeltaTable(f"{place.places.tables}/{name}") for name in ("topics/typed.orders", "rejected")
    )
    rows, odd = table.to_pyarrow_table(), rejected.to_pyarrow_table()
    twice, both = (rows.filter(pc.equal(rows["id"], id_)) for id_ in (2, 3))
    write_deltalake(table, twice, mode="append")
    at = odd.column_names.index("sequence")
    odd = odd.set_column(at, odd.field(at), both["_sequence"])
    write_deltalake(rejected, odd, mode="append")
    table.delete("id = 1")
    table.update({"who": "'another'"}, predicate="id = 4")
    table.update({"_schema_version": "2"}, predicate="id = 5")


def test_values_of_avro_and_protobuf_are_judged(place: Place) -> None:
    """By readers of their own, with Confluent's frame and an older writer's schema; a value that
    isn't the body's is named in each table."""
    log = place.log
    versions = (
        SchemaVersion(
            *("avro.orders", 1, Format.AVRO, AVRO_OLD),
            framing=Framing.CONFLUENT,
            registry_id="4",
        ),
        SchemaVersion(
            *("avro.orders", 2, Format.AVRO, AVRO_NEW),
            framing=Framing.CONFLUENT,
            registry_id="5",
        ),
        SchemaVersion("proto.orders", 1, Format.PROTOBUF, descriptor_set(), message="p.Order"),
    )
    for version in versions:
        log.next_group()
        columns = json.dumps(spark_json(row_reader(version).layout.columns))
        log.schema(version.topic, text_of(version, columns))
    log.next_group()
    old, new = b"\0\0\0\0\4", b"\0\0\0\0\5"  # ids; then 3 as a long, and "x"
    log.publish("avro.orders", *map(encoded_bytes, (old + b"\6", new + b"\6\2x", new + b"\6")))
    log.publish("proto.orders", *map(encoded_bytes, (b"\x08\3", b"\x08\4\x12\1x", b"\x12\7")))
    log.commit()
    place.materialize()
    tables = place.places.tables
    [typed] = build(place.spark, Settings(tables, place.places.log, ("typed",)))
    assert (typed.judged, typed.findings) == (6, ())
    for topic, wrong in (("avro.orders", {"who": "'y'"}), ("proto.orders", {"id": "9"})):
        table = DeltaTable(f"{tables}/topics/{topic}")
        assert table.to_pyarrow_dataset().count_rows() == 2
        table.update(wrong, predicate="who = 'x'")
    [typed] = build(place.spark, Settings(tables, place.places.log, ("typed",)))
    assert [(one.problem, one.violations) for one in typed.findings] == [("another value", 2)]


def found(results: list[Result]) -> dict[str, str]:
    """Check -> what its examples name."""
    return {
        one.check.name: ", ".join(
            {str(f.example.get("subscription", f.problem)) for f in one.findings}
        )
        for one in results
        if one.violations
    }


def typed_first(place: Place) -> int:
    """The sequence of the first message of the typed topic."""
    return min(
        int(str(row["sequence"])) for row in place.log.known if row.get("topic") == "typed.orders"
    )


def test_each_fault_is_named_by_its_check_alone(place: Place) -> None:
    """Also where only Spark's tables are at fault: a cursor that counts one too many, an event
    that `subscriptions` lacks."""
    tell(place.log)
    place.materialize()
    tables = place.places.tables
    spark = place.spark
    DeltaTable(f"{tables}/cursors").update(
        {"accepted": "accepted + 1"}, predicate="subscription = 'global/cursors_differ'"
    )
    DeltaTable(f"{tables}/subscriptions").delete("event = 'configured'")
    spoil(place)
    results = list(build(spark, Settings(tables)))
    typed = results.pop()
    assert typed.judged == 9
    first = typed_first(place)
    assert {(one.problem, one.violations, one.example["sequence"]) for one in typed.findings} == {
        ("in no table", 1, first + 1),
        ("there twice", 1, first + 2),
        ("in two tables", 1, first + 3),
        ("another value", 1, first + 4),
        ("read by another version", 1, first + 5),
    }
    assert found(results) == {name: f"global/{name}" for name in NAMES if name not in ELSEWHERE} | {
        "gaps": "some before it are missing",
        "dead_letters": "no copy in its group",
        "torn": "subscriptions differ from the log",
    }
    assert "17 checks, " in summary([*results, typed])


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
    assert DeltaTable(f"{kept}/lost").to_pyarrow_dataset().count_rows() == 1
    assert main(["--home", home, "--check", "gaps"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "audit: 1 check, nothing found"
    assert main(["--home", home, "--since", "2030-01-01"]) == 2
    assert "Nothing was published since" in capsys.readouterr().err


def test_the_sql_is_there_to_be_read(capsys: pytest.CaptureFixture[str]) -> None:
    """Each check begins with its name and what holds, and says what a row is and what to do."""
    for name in (*NAMES, *SHOWN):
        assert main(["--show-sql", name]) == 0
        sql = capsys.readouterr().out
        assert sql.startswith(f"-- {name}: ")
        if name in NAMES:
            assert all(f"-- {word}:" in sql for word in ("Guarantee", "A row", "What to do"))
            assert check(name).judged_sql.startswith("SELECT count(")
    assert main(["--show-sql", "x"]) == main(["--check", "x", "--home", "y"]) == 2
    assert "There is no check 'x'; there are: torn," in capsys.readouterr().err


def test_a_group_is_not_torn_by_events_that_are_no_subscriptions() -> None:
    """The query lists these events, so that its reader sees them."""
    [said] = re.findall(r"event NOT IN \(([^)]*)\)", check("torn").sql)
    assert {*re.findall(r"'(\w+)'", said)} == {one.value for one in NOT_OF_SUBSCRIPTIONS}
