"""`distributary schema`, typed on a real gateway and its home."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fork_server import clean_environment, commands
from gateway_peer import Connect
from gateway_process import Gateway, until

Make = Callable[..., Gateway]

ORDER = {
    "type": "object",
    "required": ["id"],
    "properties": {"id": {"type": "integer"}, "status": {"enum": ["new", "paid"]}},
}


class Shell:
    """Types commands at one gateway."""

    def __init__(self, gateway: Gateway, folder: Path) -> None:
        self.gateway, self.folder = gateway, folder

    def types(self, *words: object, code: int = 0) -> str:
        environment = {
            **clean_environment(),
            "DISTRIBUTARY_GATEWAY": f"127.0.0.1:{self.gateway.port}",
            "COLUMNS": "160",
        }
        done = commands().run(
            "schema", *map(str, words), given="", timeout=60, environment=environment
        )
        assert done.returncode == code, (words, done.stdout, done.stderr)
        return done.stdout + done.stderr if code else done.stdout

    def file(self, name: str, said: object) -> Path:
        path = self.folder / name
        path.write_text(json.dumps(said))
        return path

    def read(self, *words: object, code: int = 0) -> Any:
        return json.loads(self.types(*words, "--json", code=code))


@pytest.fixture
def shell(own_gateway: Make, tmp_path: Path) -> Shell:
    gateway = own_gateway({"commit": {"interval_ms": 100}})
    gateway.start()
    return Shell(gateway, tmp_path)


def test_a_schema_from_its_first_version_to_its_end(shell: Shell) -> None:
    first = shell.file("order.json", ORDER)
    said = shell.types("set", "orders", "--json-schema", first)
    assert said == "the schema of 'orders' has version 1\n"
    note = {**ORDER, "properties": {**ORDER["properties"], "note": {"type": "string"}}}
    second = shell.file("second.json", note)
    assert shell.read("check", "orders", "--json-schema", second)["allowed"] is True
    shell.types("set", "orders", "--json-schema", second, "--compatibility", "full")
    third = shell.file("third.json", {**note, "required": ["id", "note"]})
    checked = shell.read("check", "orders", "--json-schema", third, code=1)
    assert checked["allowed"] is False
    assert "/note is required" in checked["reasons"][0]
    assert "/note" in shell.types("set", "orders", "--json-schema", third, code=4)
    shown = shell.read("show", "orders")
    assert (shown["version"], json.loads(shown["definition"])) == (2, note)
    assert "note: string" in shell.types("show", "orders")
    [listed] = shell.read("list")
    assert (listed["name"], listed["compatibility"]) == ("orders", "full")
    assert [one["version"] for one in shell.read("history", "orders")] == [1, 2]
    assert "anonymous" in shell.types("history", "orders")
    exported = json.loads(shell.types("export", "--title", "Shop"))
    assert exported["servers"]["gateway"]["host"] == f"127.0.0.1:{shell.gateway.port}"
    assert exported["channels"]["orders"]["address"] == "topic://orders"
    message = exported["components"]["messages"]["orders"]
    assert (message["payload"]["schema"], message["x-distributary"]["version"]) == (note, 2)
    named = json.loads(shell.types("export", "--server", "amqps://u:secret@broker.example"))
    assert named["servers"]["gateway"]["host"] == "broker.example"
    assert "is no gateway" in shell.types("export", "--server", "http://x", code=2)
    assert shell.types("drop", "orders", "--yes")
    assert shell.read("list") == []
    assert "there is no schema" in shell.types("drop", "orders", "--yes", code=3)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("set", "orders"), "say one of --json-schema"),
        (("set", "orders", "--protobuf", "FILE"), "--message"),
        (("set", "temp-queue://a", "--json-schema", "FILE"), "topics and queues have schemas"),
    ],
)
def test_what_can_not_be_meant(shell: Shell, words: tuple[str, ...], sentence: str) -> None:
    path = shell.file("order.json", ORDER)
    said = shell.types(*(path if word == "FILE" else word for word in words), code=2)
    assert sentence in said


def of_property(said: object) -> dict[str, object]:
    return {**ORDER, "properties": {**ORDER["properties"], "note": said}}


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ("{", "the definition is no JSON: "),
        ({"tipe": "object"}, "/tipe is no keyword of JSON Schema: is 'type' meant?"),
        (of_property({"maxLenght": 1}), "/properties/note/maxLenght is no keyword"),
        (of_property({"type": "strin"}), '/properties/note/type: "strin" is not'),
        (of_property({"$ref": "#/$defs/note"}), "a $ref leads nowhere: "),
        (of_property({"$ref": "http://127.0.0.1:9/a"}), "lead to a place in the same document"),
    ],
    ids=str,
)
def test_what_is_wrong_with_a_definition(shell: Shell, said: object, sentence: str) -> None:
    """One sentence with the place; a word that only looks like a keyword is a note."""
    path = shell.file("order.json", said)
    if isinstance(said, str):
        path.write_text(said)
    told = shell.types("set", "orders", "--json-schema", path, code=2)
    assert sentence in told
    assert len(told.strip().splitlines()) == 1
    notes = {"type": ["integer", "null"], "x-type": 1, "javaType": "long", "nullable": True}
    noted = shell.file("notes.json", of_property(notes))
    assert shell.types("set", "orders", "--json-schema", noted)


def test_files_that_are_not_there(shell: Shell) -> None:
    nowhere = shell.folder / "nowhere"
    said = shell.types("set", "orders", "--json-schema", nowhere, code=2)
    assert "does not exist" in said
    said = shell.types("infer", "orders", "--home", nowhere, code=2)
    assert said.endswith(f"--home {nowhere} is no folder: name the one that the gateway serves\n")
    wrong = shell.file("orders.desc", 0)
    words = ("set", "orders", "--protobuf", wrong, "--message", "shop.Order")
    assert "protoc --include_imports" in shell.types(*words, code=2)


def test_how_a_schema_is_used_stays_until_it_is_said(shell: Shell) -> None:
    """A new definition doesn't end the validation without a word."""
    first = shell.file("order.json", ORDER)
    how = ("--validate", "dead-letter", "--compatibility", "full", "--cloud-events")
    shell.types("set", "orders", "--json-schema", first, *how)
    second = shell.file("second.json", of_property({"type": "string"}))
    shell.types("set", "orders", "--json-schema", second)
    shown = shell.read("show", "orders")
    assert (shown["validate"], shown["compatibility"]) == ("dead-letter", "full")
    assert shown["cloud_events"] is True
    other = ("--validate", "off", "--no-cloud-events", "--compatibility", "none")
    shell.types("set", "orders", "--json-schema", second, *other)
    shown = shell.read("show", "orders")
    assert (shown["validate"], shown["cloud_events"]) == ("off", False)


def test_what_may_not_follow_names_place_and_rule(shell: Shell) -> None:
    first = shell.file("order.json", of_property({"type": "string", "maxLength": 10}))
    shell.types("set", "orders", "--json-schema", first)
    second = shell.file("second.json", of_property({"type": "string", "maxLength": 5}))
    said = shell.types("set", "orders", "--json-schema", second, code=4)
    assert "/note may be what the reader's schema refuses" in said
    assert "maxLength 10 is written, 5 is read" in said


def test_what_the_newest_messages_say(shell: Shell, connect: Connect) -> None:
    """A proposal, what is odd, and how many fit another schema; patterns too."""
    sender = connect(port=shell.gateway.port).sender("orders.eu")
    bodies = [json.dumps({"id": nth, "status": "new" if nth % 2 else "paid"}) for nth in range(200)]
    sender.publish(*bodies, '{"id": "odd", "status": null}', "{")
    until(lambda: "201" in _count(shell), "the messages to be in the table")
    found = shell.read("infer", "orders.*", "--home", shell.gateway.home)
    assert found["unreadable"] == 1
    assert found["schema"] == {
        "type": "object",
        "properties": {
            "id": {"type": "integer"},
            "status": {"type": ["null", "string"], "enum": ["new", "paid", None]},
        },
        "required": ["id", "status"],
    }
    [place] = [one for one in found["seen"] if one["place"] == "/id"]
    assert place["odd"] == ['1 x string, such as "odd"']
    order = shell.file("order.json", ORDER)
    words = ("check", "orders.*", "--json-schema", order, "--home", shell.gateway.home)
    checked = shell.read(*words)
    assert (checked["fit"], checked["misfit"]) == (200, 2)
    assert checked["misfits_at"] == ["the body: 1", "/id: 1"]
    proposal = shell.types("infer", "orders.eu", "--home", shell.gateway.home, "--sample", 10)
    assert json.loads(proposal)["type"] == "object"


def test_no_schema_is_proposed_without_messages(shell: Shell) -> None:
    """A mistyped topic gives no schema that allows everything."""
    home = shell.gateway.home
    for words in ((), ("--json",)):
        said = shell.types("infer", "nothing", "--home", home, *words, code=3)
        assert said == f"distributary: 'nothing' has no messages in {home}\n"


def _count(shell: Shell) -> str:
    try:
        return str(shell.read("infer", "orders.*", "--home", shell.gateway.home)["seen"][0])
    except AssertionError:
        return ""
