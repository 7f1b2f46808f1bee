"""rhea, the AMQP client for Node, unmodified, against real gateways: each test of its suite is a
test here.

They run once, in one process, when the first of them is asked for. Node comes with the dev
extras; where there is none all the same they are skipped, and `CI=true` makes that a failure.
"""

import os
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest
from fork_server import commands
from gateway_certificates import Authority
from gateway_process import Gateway, Settings
from jms_control import Gateways, serve
from node_program import node_missing
from rhea_suite import Result, listed, run

#: Seconds; the first test waits for the whole suite.
pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="session")
def results(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Result]:
    if (reason := node_missing()) is not None:
        assert os.environ.get("CI") != "true", reason
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("rhea")
    gateways = Gateways(folder)
    with ExitStack() as ends:
        ends.callback(gateways.end)
        control = ends.enter_context(serve(gateways))
        _, shared = gateways.make()
        guarded = ends.enter_context(Gateway(folder / "users", _with_users(folder)))
        secret = ends.enter_context(Gateway(folder / "tls", _with_certificates(folder)))
        return run(
            {
                "GATEWAY_PORT": shared.port,
                "GATEWAY_WITH_USERS_PORT": guarded.port,
                "GATEWAY_WITH_TLS_PORT": secret.port,
                "CERTIFICATES": folder,
                "CONTROL_PORT": control,
            }
        )


def _with_users(folder: Path) -> Settings:
    """ann may do everything with topics, bob only listen."""
    users, permissions = folder / "users.toml", folder / "permissions.toml"
    for name, password in (("ann", "secret"), ("bob", "builder")):
        add = ("user", "add", name, "--users", users)
        assert commands().run(*add, given=password).returncode == 0
    permissions.write_text('["*"]\nconsume = ["*"]\n[ann]\npublish = ["*"]\ncreate = ["*"]\n')
    files = {"users": str(users), "permissions": str(permissions)}
    return {"security": {**files, "anonymous": False}}


def _with_certificates(folder: Path) -> Settings:
    """TLS, and no client without a certificate of the authority; there is one of ann."""
    authority = Authority(folder)
    authority.issue("ann", "ann")
    certificate, key = authority.issue("server", "localhost")
    files = {"tls_certificate": certificate, "tls_key": key, "tls_client_ca": authority.file}
    return {"security": {name: str(file) for name, file in files.items()} | {"anonymous": False}}


@pytest.mark.parametrize("name", listed())
def test_with_rhea(name: str, results: Mapping[str, Result]) -> None:
    """The JavaScript test's own sentence holds."""
    result = results[name]
    if result.skipped:
        pytest.skip(result.skipped)
    assert not result.failure, result.failure


def test_every_javascript_test_is_one_here(results: Mapping[str, Result]) -> None:
    """The tests that ran are those in the sources: none is forgotten, none runs unseen."""
    assert sorted(results) == sorted(listed())
    assert all(
        result.skipped.startswith("pending: ") for result in results.values() if result.skipped
    )
