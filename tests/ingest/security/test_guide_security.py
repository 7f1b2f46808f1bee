"""The guide to security, done as it is written."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from gateway_process import Gateway, free_port

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "security.md"


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```$", GUIDE.read_text(), re.DOTALL | re.MULTILINE)


def test_five_minutes_lead_to_a_secured_gateway(tmp_path: Path) -> None:
    """Commands, files and client; only the port is another."""
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl here, which the guide uses")
    port = free_port()
    command = Path(sys.executable).parent
    for block in blocks("sh"):
        subprocess.run(
            ["sh", "-ec", block],
            cwd=tmp_path,
            env={"PATH": f"{command}:/usr/bin:/bin"},
            check=True,
            capture_output=True,
        )
    for block in blocks("toml"):
        if name := re.match(r"# (\w+\.toml)\n", block):
            (tmp_path / name[1]).write_text(block.replace("5671", str(port)))

    gateway = Gateway(tmp_path)
    gateway.config.write_text(_whole(tmp_path, blocks("toml")[1].replace("5671", str(port))))
    gateway.options = ["--listen", f"0.0.0.0:{port}"]
    with gateway:
        for client in blocks("python"):
            done = subprocess.run(
                [sys.executable, "-c", client.replace("5671", str(port))],
                cwd=tmp_path,
                check=False,
                capture_output=True,
                text=True,
            )
            assert done.returncode == 0, done.stderr
            stranger = client.replace('"orders.eu"', '"secrets"').replace("5671", str(port))
            done = subprocess.run(
                [sys.executable, "-c", stranger],
                cwd=tmp_path,
                check=False,
                capture_output=True,
                text=True,
            )
            assert "no permission to publish 'secrets'" in done.stderr
        gateway.stop()


def _whole(folder: Path, settings: str) -> str:
    """The settings with whole paths: the test's gateway isn't started in the folder."""
    return re.sub(r'"((?:users|permissions|server)\.\w+)"', rf'"{folder}/\1"', settings)
