"""rhea, the AMQP client for Node, unmodified, against real gateways: each test of its suite is a
test here.

They run once, in one process, when the first of them is asked for. Node comes with the dev
extras; where there is none all the same they are skipped, and `CI=true` makes that a failure.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from gateway_process import Gateway
from rhea_suite import Result, listed, missing, run

sys.path.append(str(Path(__file__).parents[1] / "jms"))

from jms_control import Gateways, serve

from ingest.users import hashed

#: Seconds; the first test waits for the whole suite.
pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="session")
def results(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Result]:
    if (reason := missing()) is not None:
        assert os.environ.get("CI") != "true", reason
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("rhea")
    users = folder / "users.toml"
    users.write_text(f'ann = "{hashed("secret")}"\n')
    security = {"security": {"users": str(users), "anonymous": False}}
    gateways = Gateways(folder)
    try:
        with serve(gateways) as control, Gateway(folder / "users", security) as guarded:
            _, shared = gateways.make()
            ports = {
                "GATEWAY_PORT": shared.port,
                "GATEWAY_WITH_USERS_PORT": guarded.port,
                "CONTROL_PORT": control,
            }
            return run(ports)
    finally:
        gateways.end()


@pytest.mark.parametrize("name", listed())
def test_with_rhea(name: str, results: Mapping[str, Result]) -> None:
    """What the JavaScript test's own sentence says."""
    result = results[name]
    if result.skipped:
        pytest.skip(result.skipped)
    assert not result.failure, result.failure


def test_every_javascript_test_is_one_here(results: Mapping[str, Result]) -> None:
    """What ran is what the sources name: none is forgotten, none runs unseen."""
    assert sorted(results) == sorted(listed())
    assert all(
        result.skipped.startswith("pending: ") for result in results.values() if result.skipped
    )
