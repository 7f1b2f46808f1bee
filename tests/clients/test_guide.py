"""The programs in the guides are run as they stand there, but for the port; those in Go where there
is a Go."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from example_programs import go_missing, needs
from gateway_process import Gateway
from jms_suite import jars
from maven_jars import SHORT_LIFE, jdk_missing, with_needs
from node_program import install, node_missing
from proton import Described, symbol, ulong
from proton.reactor import Selector
from rhea_suite import BUILT, ROOT, SOURCES

from distributary.pipeline.selector.parser import parse
from distributary.pipeline.subscriptions.attach_intent import SELECTOR

PROGRAM_SECONDS_MAX = 60
#: The last of the javax line: the same client under the older package names.
JAVAX = ("org.apache.qpid", "qpid-jms-client", "1.16.0")
GUIDE = ROOT / "docs" / "guides" / "clients.md"
DESTINATIONS = ROOT / "docs" / "guides" / "destinations.md"
SELECTORS = ROOT / "docs" / "guides" / "selectors.md"
TRACES = ROOT / "docs" / "guides" / "traces.md"
PIZZA = "one pizza"


def programs(page: Path, language: str) -> list[str]:
    """The code blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


def run(*command: str | Path, at: Gateway, program: str = "", folder: Path = ROOT) -> str:
    """The output of a program, with the gateway's port for the usual one; it must end well."""
    done = subprocess.run(
        command,
        input=_placed(program, at),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PROGRAM_SECONDS_MAX,
        check=False,
    )
    assert not done.returncode, done.stderr
    return done.stdout.strip()


def _placed(program: str, gateway: Gateway) -> str:
    assert not program or "5672" in program
    return program.replace("5672", str(gateway.port))


def made_once(gateway: Gateway) -> bool:
    """Whether the subscription `billing` of all programs was made once."""
    made = [event["subscription"] for event in gateway.events("subscription.created")]
    return made.count("global/billing") == 1


def test_every_program_is_known() -> None:
    """A program that is added is run here, too, or by hand."""
    languages = re.findall(r"^```(\w+)$", GUIDE.read_text(), re.MULTILINE)
    assert sorted(languages) == ["go", "java", "javascript", "python"]


def test_the_program_for_proton(gateway: Gateway) -> None:
    """A shared durable subscription."""
    (program,) = programs(GUIDE, "python")
    assert run(sys.executable, "-", at=gateway, program=program) == PIZZA
    assert made_once(gateway)


def test_the_programs_that_ask_and_answer(gateway: Gateway) -> None:
    """The one that answers goes on for ever, so it is ended."""
    asking, answering = programs(DESTINATIONS, "python")
    program = _placed(answering, gateway)
    with subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.DEVNULL) as server:
        try:
            assert run(sys.executable, "-", at=gateway, program=asking) == "187.2"
            assert server.poll() is None
        finally:
            server.kill()


def test_the_program_of_the_readme(gateway: Gateway) -> None:
    """The first thing that a newcomer types."""
    first, *_ = programs(ROOT / "README.md", "python")
    assert run(sys.executable, "-", at=gateway, program=first) == PIZZA


def test_the_selectors_of_the_guide() -> None:
    """The texts for JMS are selectors; the filter has the number that the gateway
    knows, and the text as Proton itself writes it."""
    (java,) = programs(SELECTORS, "java")
    texts = re.findall(r'"([^"]* > [^"]*)"', java)
    assert len(texts) == 2
    assert all(parse(text) for text in texts)
    line = next(one for one in programs(SELECTORS, "python") if one.startswith("filters"))
    known: dict[str, object] = {"symbol": symbol, "Described": Described, "ulong": ulong}
    exec(line, known)  # noqa: S102
    text = Selector("delay > 15").filter_set["selector"].value
    assert known["filters"] == {symbol("selector"): Described(ulong(SELECTOR), text)}


def test_the_context_of_the_guide_to_traces(gateway: Gateway) -> None:
    """An instrumented producer's message has it."""
    (block,) = programs(TRACES, "python")
    program = f"""
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from proton import Message
from proton.utils import BlockingConnection

trace.set_tracer_provider(TracerProvider())
sender = BlockingConnection("127.0.0.1:5672").create_sender("orders")
message = Message("one pizza", durable=True)
{block}
print(*message.properties)
"""
    assert run(sys.executable, "-", at=gateway, program=program) == "traceparent"


def test_the_program_for_rhea(gateway: Gateway) -> None:
    """Beside the modules that the lock file names."""
    needs(node_missing())
    node = install(SOURCES, BUILT).program
    (program,) = programs(GUIDE, "javascript")
    command = (node, "--input-type=module", "-")
    assert run(*command, at=gateway, program=program, folder=BUILT) == PIZZA
    assert made_once(gateway)


def test_the_program_for_go(gateway: Gateway, tmp_path: Path) -> None:
    """With the client that the example's go.sum names."""
    if (missing := go_missing()) is not None:
        pytest.skip(missing)
    for name in ("go.mod", "go.sum"):
        shutil.copy(ROOT / "examples" / "go" / name, tmp_path)
    (program,) = programs(GUIDE, "go")
    (tmp_path / "main.go").write_text(_placed(program, gateway))
    assert run("go", "run", ".", at=gateway, folder=tmp_path) == PIZZA
    assert made_once(gateway)


@pytest.mark.parametrize("line", ["jakarta", "javax"])
def test_the_program_for_jms(gateway: Gateway, tmp_path: Path, line: str) -> None:
    """As it stands with the newest client; with `javax` for `jakarta` with the older line's."""
    needs(jdk_missing())
    (program,) = programs(GUIDE, "java")
    source = tmp_path / "Orders.java"
    source.write_text(_placed(program, gateway).replace("jakarta.jms", f"{line}.jms"))
    path = ":".join(map(str, jars() if line == "jakarta" else with_needs(JAVAX)))
    options = (*SHORT_LIFE, "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", path)
    assert run(str(shutil.which("java")), *options, source, at=gateway) == PIZZA
    assert made_once(gateway)
