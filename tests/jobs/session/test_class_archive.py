"""The archive of Spark's classes that a session takes; Java works without one, too."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from class_archive import ARCHIVE, CACHE, VARIABLES, make

from distributary.jobs.session.class_archive import archive_of, making, remove_older, using


@pytest.fixture
def jar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A jar and a cache, without a variable that names an archive."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    file = tmp_path / "one.jar"
    file.write_bytes(b"jar")
    return file


def test_an_archive_is_of_one_java_and_these_jars(jar: Path, tmp_path: Path) -> None:
    """Another Java, other jars and another order have another one."""
    other = tmp_path / "other.jar"
    other.write_bytes(b"jar")
    found = {archive_of(java, jars) for java in ("17", "21") for jars in ([jar], [jar, other])}
    found |= {archive_of("17", [other, jar])}
    assert len(found) == 5
    assert archive_of("17", [jar]) in found
    assert all(one.parent == tmp_path / "cache" / "distributary" for one in found)
    os.utime(jar, (1, 1))
    assert archive_of("17", [jar]) not in found


def test_who_has_none_goes_without(jar: Path) -> None:
    """Options stay as they are."""
    assert using(archive_of("17", [jar]), "-Xss8m") == "-Xss8m"


#: By a user whom the system doesn't know, where this one may become another.
SOMEBODY_ELSE = """
import os
from distributary.jobs.session.class_archive import archive_of, using
if not os.geteuid():
    os.setuid(54321)
print(using(archive_of("17", []), "-Xss8m"))
"""


def test_who_has_no_home_goes_without(jar: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or with a home of another user: a service may run as another user than its starter."""
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(jar))  # no folder
    assert using(archive_of("17", [jar]), "-Xss8m") == "-Xss8m"
    environment = {name: said for name, said in os.environ.items() if name != "HOME"}
    for home in ({}, {"HOME": "/root"}):
        done = subprocess.run(
            [sys.executable, "-c", SOMEBODY_ELSE],
            env=environment | home,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stdout == "-Xss8m\n", done.stderr


@pytest.mark.parametrize("variable", VARIABLES)
def test_who_names_an_archive_has_that(
    jar: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    """Java takes one: ours would replace it."""
    archive = archive_of("17", [jar])
    archive.parent.mkdir(parents=True)
    archive.touch()
    assert f"-XX:SharedArchiveFile={archive} " in using(archive, "-Xss8m")
    own = making(archive, "-Xss8m")
    assert using(archive, own) == own
    monkeypatch.setenv(variable, "-XX:SharedArchiveFile=/mine.jsa")
    assert using(archive, "-Xss8m") == "-Xss8m"


@pytest.mark.parametrize("content", [b"", b"no archive", bytes(1 << 20)])
def test_java_says_nothing_of_an_archive_that_is_none(jar: Path, content: bytes) -> None:
    """A program may read the output of a job."""
    archive = archive_of("17", [jar])
    archive.parent.mkdir(parents=True)
    archive.write_bytes(content)
    options = using(archive, "").split()
    plain, with_it = (
        subprocess.run(["java", *some, "-version"], capture_output=True, check=True)
        for some in ([], options)
    )
    assert with_it.stdout == plain.stdout == b""
    assert with_it.stderr.replace(b", sharing", b"") == plain.stderr.replace(b", sharing", b"")


#: How many classes a session has of an archive, and whether Delta's are among them.
COUNT = """
import sys
from pathlib import Path
from distributary.jobs.session.session import defaults, session

name = "spark.driver.extraJavaOptions"
spark = session({name: defaults()[name] + " -Xlog:class+load:file=" + sys.argv[1]})
spark.range(3).count()
spark._jvm.io.delta.tables.DeltaTable
spark.stop()
lines = Path(sys.argv[1]).read_text().splitlines()
mapped = [line for line in lines if "shared objects file (top)" in line]
print(len(mapped), len(lines), any("io.delta." in line for line in mapped))
"""


def test_a_session_begins_with_what_was_prepared(tmp_path: Path) -> None:
    """By `jobs prepare`, in this run's cache: most of its classes are mapped, Delta's too. Nothing
    but archives is left."""
    if not ARCHIVE.exists():  # without `make test`
        make(ARCHIVE)
    environment = {name: said for name, said in os.environ.items() if name not in VARIABLES}
    done = subprocess.run(
        [sys.executable, "-c", COUNT, str(tmp_path / "classes")],
        env=environment | {"XDG_CACHE_HOME": str(CACHE)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    mapped, loaded, delta = done.stdout.split()
    assert int(mapped) > int(loaded) / 2
    assert delta == "True"
    assert {one.suffix for one in (CACHE / "distributary").iterdir()} == {".jsa"}


def test_prepare_makes_none_where_another_is_named(
    jar: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One sentence that says where it is named."""
    from distributary.jobs.views import prepare_job  # noqa: PLC0415 - loads Spark

    monkeypatch.setenv("JDK_JAVA_OPTIONS", "-XX:SharedArchiveFile=/mine.jsa")
    assert prepare_job.main([]) == 2
    assert "JDK_JAVA_OPTIONS" in capsys.readouterr().err
    assert not archive_of("17", [jar]).parent.exists()


def test_the_folder_of_a_killed_run_is_removed(tmp_path: Path) -> None:
    """A run that is under way keeps its folder, and archives stay."""
    from distributary.jobs.views.prepare_job import remove_unfinished  # noqa: PLC0415 - loads Spark

    now = 1_000_000.0
    for name, age in (("unfinished-old", 7_200), ("unfinished-new", 60), ("spark-1.jsa", 7_200)):
        (tmp_path / name).mkdir()
        os.utime(tmp_path / name, (now - age, now - age))
    (tmp_path / "unfinished-gone").symlink_to(tmp_path / "nowhere")  # as one that ends meanwhile
    remove_unfinished(tmp_path, now)
    (tmp_path / "unfinished-gone").unlink()
    assert {one.name for one in tmp_path.iterdir()} == {"unfinished-new", "spark-1.jsa"}


def test_archives_do_not_pile_up(jar: Path) -> None:
    """Of a new Java or new jars another one is made: the newest three stay, the one that was just
    made among them, and all that isn't ours."""
    archive = archive_of("17", [jar])
    cache = archive.parent
    cache.mkdir(parents=True)
    older = [archive_of(f"{java}", [jar]) for java in range(1, 6)]
    foreign = [cache / name for name in ("spark-mine.jsa", "other.jsa", f"{archive.name}.bak")]
    for age, one in enumerate([*foreign, archive, *older]):
        one.touch()
        os.utime(one, (1_000 + age, 1_000 + age))
    (cache / f"spark-{16 * '0'}.jsa").mkdir()
    remove_older(archive)
    kept = {archive, *older[-2:], *foreign, cache / f"spark-{16 * '0'}.jsa"}
    assert set(cache.iterdir()) == kept
    remove_older(archive)
    assert set(cache.iterdir()) == kept
