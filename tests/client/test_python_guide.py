"""The programs of the client's guide are run as they stand there, but for the port."""

import asyncio
import io
import re
from contextlib import redirect_stdout
from pathlib import Path

import pytest
from gateway_process import PATIENCE, Gateway

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "python.md"
#: What each of them prints.
SAYS = {
    "The first message": "one pizza",
    "Outcomes": "bake failed 1 time before",
    "Publishing": "10000 accepted",
    "Requests and answers": "187.2",
    "Transactions": "baked dough",
}


def programs() -> dict[str, str]:
    """The page's programs by the headings above them."""
    parts = re.split(r"^## (.*)$", GUIDE.read_text(), flags=re.MULTILINE)
    return {
        title: program
        for title, text in zip(parts[1::2], parts[2::2], strict=True)
        for program in re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    }


def test_every_program_has_a_test() -> None:
    """A program that is added is run, too."""
    assert programs().keys() == SAYS.keys()


@pytest.mark.parametrize("title", SAYS)
def test_a_program_does_what_it_says(
    gateway: Gateway, title: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In this process: its `asyncio.run` is bounded."""
    run = asyncio.run
    monkeypatch.setattr(asyncio, "run", lambda work: run(asyncio.wait_for(work, PATIENCE)))
    program = programs()[title].replace("5672", str(gateway.port))
    said = io.StringIO()
    with redirect_stdout(said):
        exec(compile(program, title, "exec"), {})  # noqa: S102 (our own page)
    assert said.getvalue().strip() == SAYS[title]
