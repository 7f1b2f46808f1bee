"""The notebook runs on a home as a job leaves it, from the first cell to the last."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from spark_log import encoded
from spark_place import Place

NOTEBOOK = Path(__file__).parents[2] / "docs" / "notebooks" / "subscription_state.ipynb"


def text_of(cell: nbformat.NotebookNode) -> str:
    """What a cell shows as text."""
    return "".join(output.data["text/plain"] for output in cell.outputs if "data" in output)


def test_the_notebook_shows_the_state(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Subscriptions, what they are owed, who took over from whom, and a picture."""
    log = place.log
    log.next_group()
    log.subscribe("global/dispatchers", "flights")
    log.subscribe("container/audit/auditors", "flights")
    log.publish("flights", *[encoded(f"m{i}") for i in range(40)])
    log.next_group()
    log.settle("global/dispatchers", "flights", [*range(10)], 10)
    log.settle("global/dispatchers", "flights", [10, 11], 10, outcome="released")
    log.next_group()
    log.settle(
        "global/dispatchers", "flights", [*range(10, 37)], 37, consumer="worker-2/dispatchers"
    )
    log.commit()
    place.materialize()

    monkeypatch.setenv("DISTRIBUTARY_HOME", str(place.home.root))
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    NotebookClient(notebook, timeout=240, kernel_name="python3").execute()

    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    cursors, owed, took_over = text_of(cells[1]), text_of(cells[2]), text_of(cells[4])
    assert "global/dispatchers" in cursors
    assert "container/audit/auditors" in cursors
    assert [line.split()[2] for line in owed.splitlines()[1:]] == ["40", "3"]
    assert "worker-1/dispatchers  worker-2/dispatchers" in took_over
    assert any("image/png" in output.get("data", {}) for output in cells[5].outputs)
