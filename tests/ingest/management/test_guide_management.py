"""The guide to management, done as it is written."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from command_lines import commands_of
from fork_server import clean_environment, commands
from gateway_process import Gateway

from distributary.ingest.cli.options.command_options import ABSENT, FAILED, MISUSED, REFUSED
from distributary.pipeline.management.management_messages import REQUESTS, STATUS, Entity, Verb

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "management.md"
Make = Callable[..., Gateway]


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```$", GUIDE.read_text(), re.DOTALL | re.MULTILINE)


def test_each_command_does_what_it_says(own_gateway: Make) -> None:
    """One after the other, as a reader types them; each ends well."""
    gateway = own_gateway().start()
    place = {**clean_environment(), "DISTRIBUTARY_GATEWAY": f"127.0.0.1:{gateway.port}"}
    for _, *words in commands_of("".join(blocks("sh"))):
        done = commands().run(*words, environment=place, timeout=60)
        assert done.returncode == 0, (words, done.stderr)
        assert done.stdout, words
    assert not [event for event in gateway.events("subscription.created") if "?" in str(event)]


def test_the_program_prints_what_it_says(gateway: Gateway) -> None:
    [program] = blocks("python")
    done = subprocess.run(
        [sys.executable, "-c", program.replace("5672", str(gateway.port))],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.stdout.split("\n")[:-1] == ["201", "{'lock_ms': 30000}", "200", "404", "204"]


def test_what_may_be_asked_is_all_there() -> None:
    """Every operation, attribute, status, exit code and limit."""
    text = GUIDE.read_text()
    for entity in Entity:
        assert f"`{entity}`" in text
        for attributes in REQUESTS[entity].values():
            assert all(f"`{name}`" in text for name in attributes)
    assert all(verb.value in text for verb in Verb)
    assert all(f"| {status} |" in text or f"{status}," in text for status in STATUS.values())
    assert all(f"| {code} |" in text for code in (FAILED, MISUSED, ABSENT, REFUSED))
