"""`distributary publish`, `consume` and `peek`: lines become messages, and messages lines."""

import base64
import json
import math
import os
import signal
import subprocess
from pathlib import Path
from uuid import UUID

import pytest
from async_client import Nobody, at
from async_client import run as run_client
from gateway_peer import Connect
from gateway_process import SCRIPT, Gateway, free_port, interruptible, until

from distributary.client import Encoded, Message, ReceivedMessage
from distributary.client.outgoing_message import encoded
from distributary.ingest.cli.messages.message_lines import line_of, message_of
from distributary.pipeline.errors import InvalidRequest


def run(
    gateway: Gateway, *words: str, said: str = "", code: int = 0
) -> subprocess.CompletedProcess[str]:
    place = ("--gateway", f"127.0.0.1:{gateway.port}")
    done = subprocess.run(
        [SCRIPT, *words, *place], input=said, capture_output=True, text=True, check=False
    )
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done


def came(message: Message) -> ReceivedMessage:
    """The same message as a consumer has it."""
    return ReceivedMessage(Nobody(), encoded(message, "made"), 1, 1)


def test_what_one_writes_the_other_reads() -> None:
    """A line with all fields of a message is read as it was written."""
    said = {
        "body": {"total": 3, "paid": True},
        "subject": "s",
        "correlation_id": "c",
        "reply_to": "queue://answers",
        "group": "g",
        "priority": 7,
        "ttl_ms": 2_000,
        "properties": {"a": 1, "b": "x", "c": None, "d": True},
    }
    message = message_of(json.dumps(said), as_json=True, where="line 1")
    assert json.loads(line_of(came(message), as_json=True)) == said | {
        "deliveries": 1,
        "id": "made",
    }
    data = json.dumps({"body_base64": "AAH/"})
    message = message_of(data, as_json=True, where="line 1", properties={"k": "v"})
    assert (message.body, message.properties) == (b"\x00\x01\xff", {"k": "v"})
    assert json.loads(line_of(came(message), as_json=True))["body_base64"] == "AAH/"
    assert line_of(came(Message(body=b"\xffa")), as_json=False) == "\\xffa"


def test_a_number_as_correlation_id_stays_one() -> None:
    """JMS clients have texts, others numbers."""
    line = line_of(came(Message(body="x", correlation_id=5)), as_json=True)
    assert message_of(line, as_json=True, where="line 1").correlation_id == 5


def test_lines_are_json_whatever_a_message_has() -> None:
    """Bytes in base64; JSON has no NaN, and no UUID."""
    made = UUID(int=1)
    body = {"bytes": b"\xff", "nan": math.nan, "list": [b"a", made, 1.5]}
    message = came(Message(body=body, correlation_id=b"\x01", properties={"b": b"\x02"}))

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} isn't JSON")

    assert json.loads(line_of(message, as_json=True), parse_constant=refuse) == {
        "id": "made",
        "body": {"bytes": "/w==", "nan": "nan", "list": ["YQ==", str(made), 1.5]},
        "correlation_id": "AQ==",
        "properties": {"b": "Ag=="},
        "deliveries": 1,
    }


def test_a_message_does_not_control_the_terminal(gateway: Gateway) -> None:
    """Its text goes into a file as it is; a terminal gets no character that commands it."""
    queue, body = "queue://colours", "\x1b[31mred\x07 \u202eabc\ttab"
    run(gateway, "publish", queue, body)
    assert run(gateway, "peek", queue).stdout == body + "\n"
    place = ["--gateway", f"127.0.0.1:{gateway.port}"]
    ours, terminal = os.openpty()
    subprocess.run([SCRIPT, "peek", queue, *place], stdout=terminal, check=True)
    shown = os.read(ours, 4_096).decode()
    os.close(ours)
    os.close(terminal)
    assert "\\x1b[31mred\\x07 \\u202eabc" in shown
    assert "\x1b[31m" not in shown


def test_a_message_that_cannot_be_read_hides_no_other(gateway: Gateway) -> None:
    """Its correlation id is a list. It is shown as it is, and those behind it, too."""
    queue, data = "queue://unreadable", bytes.fromhex("005373c00706404040404045005377a10178")

    async def publish() -> None:
        async with at(gateway) as client:
            for one in ("before", Encoded(data), "behind"):
                await client.publish(queue, one)

    run_client(publish())
    before, shown, behind = run(gateway, "peek", queue).stdout.splitlines()
    assert (before, behind) == ("before", "behind")
    assert shown.startswith("(can't be read: PROPERTIES.correlation_id is of type list")
    lines = run(gateway, "consume", queue, "--count", "3", "--json").stdout.splitlines()
    told = [json.loads(line) for line in lines]
    assert [one.get("body") for one in told] == ["before", None, "behind"]
    assert base64.b64decode(told[1]["message_base64"]) == data


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("{", "line 3 isn't JSON"),
        ("[1]", "line 3 isn't an object"),
        ('{"bdy": 1}', "line 3 says bdy; known are body"),
        ('{"body": 1, "body_base64": ""}', "one of them"),
        ('{"body": ' + "[" * 100_000, "line 3 can't be read"),
        ('{"body_base64": "?"}', "isn't base64"),
        ('{"priority": 10}', "from 0 to 9"),
        ('{"priority": "high"}', "line 3: priority isn't a number"),
        ('{"correlation_id": [1]}', "line 3: correlation_id isn't a text"),
        ('{"subject": 3}', "line 3: subject isn't a text"),
        ('{"properties": {"a": [1]}}', "line 3: properties: a is no text"),
    ],
)
def test_a_line_that_cannot_be_meant_is_one_sentence(line: str, sentence: str) -> None:
    with pytest.raises(InvalidRequest, match=sentence):
        message_of(line, as_json=True, where="line 3")


def test_lines_go_in_and_come_out(gateway: Gateway) -> None:
    """As arguments, from the input, from a file, again and again; a queue is looked at first."""
    queue = "queue://cli-lines"
    done = run(gateway, "publish", queue, "a", "b")
    assert done.stderr.startswith("2 accepted in ")
    run(gateway, "publish", queue, said="c\n\nd\n")
    run(gateway, "publish", queue, "e", "--count", "3", "--property", "kind=test")
    assert run(gateway, "peek", "cli-lines").stdout.split() == [*"abcdeee"]
    done = run(gateway, "consume", queue, "--count", "4")
    assert (done.stdout.split(), done.stderr) == ([*"abcd"], "4 taken\n")
    done = run(gateway, "consume", queue, "--for", "0.5", "--json")
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [one["body"] for one in found] == ["e", "e", "e"]
    assert found[0]["properties"] == {"kind": "test"}
    assert run(gateway, "peek", "cli-lines").stdout == ""


def test_a_queue_that_is_not_there_is_named_and_not_made(gateway: Gateway) -> None:
    """A mistyped name is no empty queue, and none is made of it."""
    for name in ("cli-mistyped", "queue://cli-mistyped"):
        done = run(gateway, "peek", name)
        assert (done.stdout, done.stderr) == ("", f"distributary: there is no queue '{name}'\n")
    assert "cli-mistyped" not in run(gateway, "queue", "list").stdout


def test_a_pipe_copies_messages(gateway: Gateway, tmp_path: Path) -> None:
    lines = tmp_path / "lines"
    lines.write_text("".join(f'{{"body": {n}, "priority": {n % 10}}}\n' for n in range(500)))
    run(gateway, "publish", "queue://cli-from", "--json", "--file", str(lines))
    copied = run(gateway, "consume", "queue://cli-from", "--count", "500", "--json").stdout
    run(gateway, "publish", "queue://cli-to", "--json", said=copied)
    found = run(gateway, "consume", "queue://cli-to", "--count", "500", "--json").stdout
    bodies = [json.loads(line)["body"] for line in found.splitlines()]
    assert sorted(bodies) == list(range(500))
    assert [n % 10 for n in bodies] == sorted((n % 10 for n in bodies), reverse=True)


def test_a_durable_subscription_keeps_what_comes(gateway: Gateway, connect: Connect) -> None:
    """Also shared; its selector selects."""
    words = ("consume", "cli-orders", "--durable", "cli-billing", "--for", "0.3")
    run(gateway, *words, "--shared")
    run(gateway, *words, "--selector", "kind = 'large'")
    for kind in ("large", "small"):
        run(gateway, "publish", "cli-orders", kind, "--property", f"kind={kind}")
    assert run(gateway, *words, "--shared").stdout.split() == ["large", "small"]
    assert run(gateway, *words, "--selector", "kind = 'large'").stdout.split() == ["large"]
    connect("other").sender("cli-orders").publish("x")
    assert run(gateway, *words, "--shared", "--count", "1").stdout.split() == ["x"]


def test_what_goes_wrong_is_one_sentence(gateway: Gateway) -> None:
    done = run(gateway, "publish", "queue://a\nb", "x", code=1)
    assert "amqp:invalid-field" in done.stderr
    done = run(gateway, "publish", "t", "x", "--json", code=2)
    assert "line 1 isn't JSON" in done.stderr
    done = run(gateway, "consume", "cli-x", "--selector", "a = ", "--count", "1", code=1)
    assert "amqp:" in done.stderr
    done = run(gateway, "publish", "t", "x", "--file", "-", code=2)
    assert "not both" in done.stderr
    place = f"127.0.0.1:{free_port()}"
    for words in (("publish", "t", "x"), ("consume", "t"), ("peek", "q")):
        gone = subprocess.run(
            [SCRIPT, *words, "--gateway", place], capture_output=True, text=True, check=False
        )
        assert gone.returncode == 1
        assert f"no server answers at amqp://{place}: Connection refused" in gone.stderr


def test_it_ends_with_ctrl_c(gateway: Gateway) -> None:
    """The messages that were printed are taken; the others stay."""
    run(gateway, "publish", "queue://cli-stop", "a")
    place = ("--gateway", f"127.0.0.1:{gateway.port}")
    process = subprocess.Popen(
        [SCRIPT, "consume", "queue://cli-stop", *place],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=interruptible,  # noqa: PLW1509 (no threads here)
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "a\n"
    until(lambda: run(gateway, "peek", "cli-stop").stdout == "", "it is taken")
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "1 taken\n")


def stopping(gateway: Gateway, *words: str) -> subprocess.Popen[str]:
    """A command that hears Ctrl-C."""
    return subprocess.Popen(
        [SCRIPT, *words, "--gateway", f"127.0.0.1:{gateway.port}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=interruptible,  # noqa: PLW1509 (no threads here)
    )


def backlog(gateway: Gateway, queue: str) -> int:
    """How many messages a queue has; it may not be there yet."""
    return len(run(gateway, "peek", queue, "--count", "1000").stdout.splitlines())


def test_a_line_is_sent_when_it_is_there(gateway: Gateway) -> None:
    """Whenever the next one comes; and Ctrl-C ends the wait for it, with the number so far."""
    process = stopping(gateway, "publish", "queue://cli-typed")
    assert process.stdin is not None
    process.stdin.write("a\nb\n")
    process.stdin.flush()
    until(lambda: backlog(gateway, "cli-typed") == 2, "two lines are there")
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 1
    accepted, interrupted = said.splitlines()
    assert accepted.startswith("2 accepted in ")
    assert interrupted == "distributary: interrupted"


def test_an_interrupted_publish_says_how_many_are_accepted(gateway: Gateway) -> None:
    process = stopping(
        gateway, "publish", "queue://cli-cut", "x", "--count", "100000", "--rate", "20"
    )
    peek = ("peek", "queue://cli-cut", "--count", "1")
    until(lambda: run(gateway, *peek).stdout, "it publishes")
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 1
    accepted, interrupted = said.splitlines()
    assert int(accepted.split()[0]) == backlog(gateway, "cli-cut")
    assert interrupted == "distributary: interrupted"


def test_a_wrong_line_says_how_many_before_it_are_accepted(gateway: Gateway) -> None:
    lines = '{"body": 1}\n{"body": 2}\n{"bdy": 3}\n'
    done = run(gateway, "publish", "queue://cli-wrong", "--json", said=lines, code=2)
    accepted, wrong = done.stderr.splitlines()
    assert accepted.startswith("2 accepted in ")
    assert wrong.startswith("distributary: line 3 says bdy")
    assert backlog(gateway, "cli-wrong") == 2


def test_a_publish_that_waits_for_input_ends_with_its_connection(
    tmp_path: Path,
) -> None:
    """It stays connected while it waits, however short the idle time-out; the end is said at
    once."""
    with Gateway(tmp_path, {"amqp": {"idle_timeout_ms": 1_000}}) as gateway:
        process = stopping(gateway, "publish", "queue://cli-idle")
        other = stopping(gateway, "consume", "queue://cli-idle", "--for", "2")
        assert process.stdin is not None
        process.stdin.write("a\n")
        process.stdin.flush()
        assert other.communicate(timeout=60)[0] == "a\n"
        process.stdin.write("b\n")
        process.stdin.flush()
        until(lambda: backlog(gateway, "cli-idle") == 1, "the second line is there")
        gateway.kill()
        process.wait(timeout=60)
        _, said = process.communicate()
        assert process.returncode == 1
        assert said.startswith("2 accepted in ")
