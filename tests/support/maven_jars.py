"""Java for programs of seconds, and jars from Maven Central: jgo resolves them without Maven and
keeps them in `~/.m2`."""

import shutil
from collections.abc import Iterable
from pathlib import Path

from class_archive import FIRST_COMPILER
from jgo.maven import POM, MavenContext, Model

DOWNLOAD_SECONDS_MAX = 120
#: Neither a compiler nor a client in the tests lives long enough for Java's second compiler.
SHORT_LIFE = tuple(FIRST_COMPILER.split())
#: The compiler, for the same.
JAVAC = ("javac", *(f"-J{option}" for option in SHORT_LIFE))
#: What a program needs to run.
_SCOPES = ("compile", "runtime")

#: Group, artifact and version.
Coordinates = tuple[str, str, str]


class JarsMissing(Exception):
    """Maven Central or a jar couldn't be reached; the message says what to do."""


def jdk_missing() -> str | None:
    """One sentence when there is no Java compiler, else None."""
    if shutil.which("javac") and shutil.which("java"):
        return None
    return (
        "Tests of Java clients need a JDK (javac) and there is none: "
        "apt-get install openjdk-17-jdk-headless"
    )


def with_needs(coordinates: Coordinates) -> list[Path]:
    """The jar and all that it needs to run. Raises JarsMissing."""
    group, name, version = coordinates
    project = MavenContext(timeout=DOWNLOAD_SECONDS_MAX).project(group, name).at_version(version)
    return [*alone([coordinates]), *_needs(project.pom())]


def needs_of(pom: Path) -> list[Path]:
    """The jars that the project of a pom.xml needs to run. Raises JarsMissing."""
    return _needs(POM(pom))


def alone(coordinates: Iterable[Coordinates]) -> list[Path]:
    """These jars, without their dependencies. Raises JarsMissing."""
    maven = MavenContext(timeout=DOWNLOAD_SECONDS_MAX)
    try:
        return [
            maven.project(group, name).at_version(version).artifact().resolve()
            for group, name, version in coordinates
        ]
    except (OSError, RuntimeError, ValueError) as error:
        raise _missing(error) from error


def _needs(pom: POM) -> list[Path]:
    try:
        needed, _ = Model(pom, MavenContext(timeout=DOWNLOAD_SECONDS_MAX)).dependencies()
        return [one.artifact.resolve() for one in needed if one.scope in _SCOPES]
    except (OSError, RuntimeError, ValueError) as error:
        raise _missing(error) from error


def _missing(error: Exception) -> JarsMissing:
    return JarsMissing(
        f"Jars could not be had from Maven Central ({error}): "
        "check the network, or put them in ~/.m2 once."
    )
