"""How the examples of `examples/` are built and started here: each has a shop and billing, two
programs of one client library. What is built or installed lies in `build/examples`, made once."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from maven_jars import JAVAC, SHORT_LIFE, alone, jdk_missing, needs_of
from node_program import install, node_missing

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "examples"
BUILT = ROOT / "build" / "examples"
#: The Go that the client needs.
GO_MIN = (1, 25)
#: Java for programs that live for seconds.
JAVA = ("java", "-Xmx256m", *SHORT_LIFE)
#: What a process that a signal ends has as exit code, by itself and by Java.
BY_SIGTERM = 143
BUILD_SECONDS_MAX = 200


@dataclass(frozen=True, slots=True)
class Programs:
    """The command lines of an example, to be run in `folder`.

    `exit_code` is billing's after SIGTERM; `reason` says why its dead letters are dead; `invoices`
    are sent to a queue, one for each order that is billed."""

    shop: tuple[str, ...]
    billing: tuple[str, ...]
    folder: Path
    exit_code: int = 0
    reason: str = "rejected"
    invoices: bool = False


def python() -> Programs:
    """With the client of this tree, which is all that its requirements name."""
    assert (SOURCES / "python" / "requirements.txt").read_text() == "distributary\n"
    start = (sys.executable, str(SOURCES / "python" / "orders.py"))
    return Programs((*start, "shop"), (*start, "billing"), SOURCES / "python")


@cache
def node() -> Programs:
    """Beside the modules that its own lock file names, by checksums."""
    needs(node_missing())
    folder = BUILT / "node"
    found = install(SOURCES / "node", folder)
    for source in (SOURCES / "node").glob("*.js"):
        shutil.copy(source, folder)
    return Programs((found.program, "shop.js"), (found.program, "billing.js"), folder)


@cache
def go() -> Programs:
    """The programs, built by any Go that is there: the tests don't require one."""
    if (missing := go_missing()) is not None:
        pytest.skip(missing)
    folder = BUILT / "go"
    folder.mkdir(parents=True, exist_ok=True)
    build("go", "build", "-o", f"{folder}/", "./...", folder=SOURCES / "go", GOTOOLCHAIN="local")
    return Programs((str(folder / "shop"),), (str(folder / "billing"),), folder)


@cache
def java() -> Programs:
    """Beside the jars that its own pom.xml needs."""
    path = compiled("java", needs_of)
    start = (*JAVA, "-cp", path)
    return Programs((*start, "shop.Shop"), (*start, "shop.Billing"), BUILT, BY_SIGTERM)


@cache
def spring_boot() -> Programs:
    """Beside the jars that Maven has found for its pom.xml: jgo can't read Spring Boot's parent."""
    path = compiled("spring-boot", lambda _: alone(locked_jars()))
    start = (*JAVA, "-cp", path)
    return Programs(
        (*start, "-Dspring.profiles.active=shop", "shop.OrdersApplication"),
        (*start, "-Dspring.profiles.active=billing", "shop.OrdersApplication"),
        BUILT,
        exit_code=BY_SIGTERM,
        reason="exhausted",
        invoices=True,
    )


#: Each example by the name of its folder.
EXAMPLES: Mapping[str, Callable[[], Programs]] = {
    "python": python,
    "node": node,
    "go": go,
    "java": java,
    "spring-boot": spring_boot,
}


def needs(reason: str | None) -> None:
    """Skip for this reason; where `CI` is `true` that is a failure."""
    if reason is not None:
        assert os.environ.get("CI") != "true", reason
        pytest.skip(reason)


def go_missing() -> str | None:
    """One sentence when there is no Go, or an older one than the client needs; else None."""
    wanted = ".".join(map(str, GO_MIN))
    if shutil.which("go") is None:
        return f"the example in Go is built only where there is a Go ({wanted} or newer)"
    said = subprocess.run(
        ["go", "env", "GOVERSION"], capture_output=True, text=True, check=True
    ).stdout
    found = tuple(int(part) for part in said.strip().removeprefix("go").split(".")[:2])
    return None if found >= GO_MIN else f"the example needs Go {wanted}, and {said.strip()} is here"


def compiled(name: str, jars: Callable[[Path], list[Path]]) -> str:
    """A Maven project's class path: its classes, resources and jars."""
    needs(jdk_missing())
    project, classes = SOURCES / name, BUILT / name / "classes"
    shutil.rmtree(classes, ignore_errors=True)
    classes.mkdir(parents=True)
    for resource in project.glob("src/main/resources/*"):
        shutil.copy(resource, classes)
    path = ":".join(map(str, [classes, *jars(project / "pom.xml")]))
    sources = sorted(map(str, project.rglob("src/main/java/**/*.java")))
    lint = ("-Xlint:all,-processing", "-Werror", "-parameters", "-proc:none")
    build(*JAVAC, *lint, "--release", "17", "-cp", path, "-d", str(classes), *sources)
    return path


def locked_jars() -> list[tuple[str, str, str]]:
    """The jars of `spring_boot.jars`."""
    lines = (Path(__file__).parent / "spring_boot.jars").read_text().splitlines()
    found = [line.split(":") for line in lines if not line.startswith("#")]
    return [(group, name, version) for group, name, version in found]


def build(*command: str, folder: Path = ROOT, **variables: str) -> None:
    """Run a compiler; what it says is the failure's text."""
    done = subprocess.run(
        command,
        cwd=folder,
        env=os.environ | variables,
        capture_output=True,
        text=True,
        timeout=BUILD_SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
