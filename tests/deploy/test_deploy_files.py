"""Files in `deploy/` are valid for systemd, Compose and Kubernetes, and name existing things."""

import copy
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from command_lines import parsed

from distributary.ingest.runtime import load_settings

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
KUBERNETES = "1.34"
#: What is a patch, or kustomize's own.
NOT_RESOURCES = ("kustomization.yaml", "two-gateways.yaml")


def exec_start(unit: Path) -> list[str]:
    line = re.search(r"^ExecStart=(.*)$", unit.read_text(), re.MULTILINE)
    assert line is not None
    return shlex.split(line[1])


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_systemd_takes_the_unit(unit: Path, tmp_path: Path) -> None:
    """As it is, but for the place of the command and the user, which aren't on this machine."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd isn't on this machine")
    place = tmp_path / unit.name
    text = unit.read_text().replace("/opt/distributary/bin/distributary", sys.executable)
    place.write_text(text.replace("User=distributary\nGroup=distributary\n", ""))
    found = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", place],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (found.returncode, unit.name in found.stderr) == (0, False), found.stderr
    rated = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--threshold=20", place],
        capture_output=True,
        text=True,
        check=False,
    )
    assert rated.returncode == 0, rated.stdout.splitlines()[-1]


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_a_unit_runs_a_command_that_there_is(unit: Path) -> None:
    program, *words = exec_start(unit)
    assert program == "/opt/distributary/bin/distributary"
    parsed(words)


@pytest.mark.parametrize(
    "file", sorted(DEPLOY.rglob("gateway.toml")), ids=lambda file: str(file.parent.name)
)
def test_settings_can_be_meant(file: Path) -> None:  # fmt: skip
    assert load_settings.load(file).http.listen.endswith(":8162")


def test_compose_takes_its_file() -> None:
    """Every file that it mounts is there, every command can be meant."""
    file = DEPLOY / "container" / "compose.yaml"
    subprocess.run(
        [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", file],
        check=True,
    )
    services = yaml.safe_load(file.read_text())["services"]
    for service in services.values():
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            assert not source.startswith(".") or (file.parent / source).is_file(), volume
        if "build" in service:
            build = service["build"]
            assert (file.parent / build["context"] / build["dockerfile"]).is_file()
            assert f" AS {build['target']}\n" in containerfile()
    parsed(services["standby"]["command"])
    parsed(services["console"]["command"])


def containerfile() -> str:
    return (DEPLOY / "container" / "Containerfile").read_text()


def test_the_container_has_what_it_copies_and_runs() -> None:
    """It copies all parts of the package, and its commands exist."""
    copied = re.findall(r"^COPY (?!--from)(.*) \S+$", containerfile(), re.MULTILINE)
    names = [name for line in copied for name in line.split()]
    assert all((ROOT / name).exists() for name in names)
    links = {one.name for one in (ROOT / "distributary").iterdir() if one.is_symlink()}
    assert links < set(names)
    for entry, words in re.findall(
        r"^ENTRYPOINT (\[.*\])\nCMD (\[.*\])$", containerfile(), re.MULTILINE
    ):
        parsed([*yaml.safe_load(entry), *yaml.safe_load(words)][1:])


def resources(folder: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """The resources that a kustomization names, by kind and name."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for name in yaml.safe_load((folder / "kustomization.yaml").read_text())["resources"]:
        place = folder / name
        if place.is_dir():
            found |= resources(place)
            continue
        for one in yaml.safe_load_all(place.read_text()):
            found[one["kind"], one["metadata"]["name"]] = one
    return found


def patched(whole: dict[str, Any], operations: list[dict[str, Any]]) -> dict[str, Any]:
    """RFC 6902, as far as the patches here need it."""
    made = copy.deepcopy(whole)
    for one in operations:
        *way, last = one["path"].split("/")[1:]
        at: Any = made
        for step in way:
            at = at[int(step)] if isinstance(at, list) else at[step]
        match one["op"]:
            case "add" if last == "-":
                at.append(one["value"])
            case "add" | "replace":
                assert one["op"] == "add" or last in at, one
                at[last] = one["value"]
            case "remove":
                del at[last]
            case other:
                raise AssertionError(other)
    return made


@pytest.mark.parametrize("overlay", ["base", "standby"])
def test_kubernetes_takes_the_manifests(overlay: str) -> None:
    """Each by the schema of its kind, with every file in a kustomization; the gateway's command
    can be meant, its probes and services name ports that it has."""
    folder = DEPLOY / "kubernetes" / overlay
    kustomization = yaml.safe_load((folder / "kustomization.yaml").read_text())
    found = resources(folder)
    for patch in kustomization.get("patches", ()):
        key = patch["target"]["kind"], patch["target"]["name"]
        found[key] = patched(found[key], yaml.safe_load((folder / patch["path"]).read_text()))
    for one in found.values():
        kubernetes_validate.validate(one, KUBERNETES, strict=True)
    for generator in kustomization.get("configMapGenerator", ()):
        assert all((folder / file).is_file() for file in generator["files"])
    listed = {*kustomization["resources"], *NOT_RESOURCES}
    assert {file.name for file in folder.glob("*.yaml")} <= listed
    gateway = found["StatefulSet", "distributary"]["spec"]["template"]["spec"]
    container = gateway["containers"][0]
    parsed(container["args"])
    volumes = {one["name"] for one in gateway["volumes"]} | {"home"}
    assert {one["name"] for one in container["volumeMounts"]} == volumes
    ports = {one["name"] for one in container["ports"]}
    for service in ("distributary", "distributary-gateways"):
        used = {port["targetPort"] for port in found["Service", service]["spec"]["ports"]}
        assert used <= ports
    probes = ("startupProbe", "livenessProbe", "readinessProbe")
    paths = [container[one]["httpGet"]["path"] for one in probes]
    assert paths == ["/livez", "/livez", "/readyz"]
