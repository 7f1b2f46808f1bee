"""Start of Spark, and the sentences for the cases in which it can't start."""

from pathlib import Path

import pytest

from distributary.jobs.session.session import SparkUnavailable, defaults, java_version, require_java


def java(folder: Path, version: str) -> Path:
    """A `java` that says it is of that version."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(0o755)
    return folder


def test_no_java_is_one_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It says what to install."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SparkUnavailable, match=r"there is none: install openjdk-17"):
        require_java()


def test_an_old_java_is_one_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It says which one was found."""
    monkeypatch.setenv("JAVA_HOME", str(java(tmp_path, "11.0.2")))
    with pytest.raises(SparkUnavailable, match="this is Java 11"):
        require_java()


@pytest.mark.parametrize(("said", "major"), [("1.8.0_392", 8), ("17.0.15", 17), ("21", 21)])
def test_versions_of_java(tmp_path: Path, said: str, major: int) -> None:
    """The old and the new way of counting."""
    assert java_version({"JAVA_HOME": str(java(tmp_path, said))}) == major


def test_settings_are_read() -> None:
    """Keys without their reasons, values whole."""
    found = defaults()
    assert found["spark.sql.session.timeZone"] == "UTC"
    assert "-XX:+UseSerialGC" in found["spark.driver.extraJavaOptions"]
    assert all(key.startswith("spark.") for key in found)
