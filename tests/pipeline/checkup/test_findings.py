"""Findings about a machine: each threshold, on both of its sides, and that each sentence of a bad
finding tells a remedy."""

from dataclasses import replace

import pytest

from distributary.pipeline.checkup.findings import (
    DiskFacts,
    Finding,
    HomeFacts,
    HomeState,
    LimitFacts,
    PortFacts,
    PortState,
    Verdict,
    of_clock,
    of_disk,
    of_home,
    of_java,
    of_limits,
    of_port,
    of_secret,
    worst,
)

GOOD, LOOK, BAD = Verdict
GIB = 2**30
DISK = DiskFacts("ext4", 0.4, 2.0, 400e6, 100 * GIB, 1_000_000)
LIMITS = LimitFacts(100_000, 10_384, 32 * GIB, 6 * GIB)


def verdicts(found: list[Finding]) -> dict[str, Verdict]:
    """The worst of each subject."""
    by_subject: dict[str, list[Finding]] = {}
    for one in found:
        by_subject.setdefault(one.subject, []).append(one)
    return {subject: worst(some) for subject, some in by_subject.items()}


@pytest.mark.parametrize(
    ("disk", "subject", "verdict", "says"),
    [
        (DISK, "fsync", GOOD, "0.40 ms, 2.00 ms for the slowest of a hundred"),
        (replace(DISK, filesystem="tmpfs"), "fsync", BAD, "Put the home on a disk"),
        (replace(DISK, filesystem="nfs4"), "fsync", LOOK, "another machine's disk"),
        (replace(DISK, sync_p50_ms=0.007), "fsync", BAD, "nothing is durable"),
        (replace(DISK, sync_p50_ms=0.008), "fsync", GOOD, "0.01 ms"),
        (replace(DISK, sync_p50_ms=10.1), "fsync", LOOK, "each publisher waits"),
        (replace(DISK, sync_p99_ms=101.0), "fsync", LOOK, "each publisher waits"),
        (replace(DISK, write_bytes_a_second=49e6), "disk", LOOK, "takes no more than that"),
        (replace(DISK, write_bytes_a_second=50e6), "disk", GOOD, "50 MB/s"),
        (replace(DISK, free_bytes=5 * GIB - 1), "space", BAD, "make room"),
        (replace(DISK, free_bytes=20 * GIB - 1), "space", LOOK, "upkeep.retention_days"),
        (replace(DISK, free_bytes=20 * GIB), "space", GOOD, "20.0 GiB are free"),
        (replace(DISK, free_files=19_999), "space", LOOK, "it runs out of inodes"),
        (replace(DISK, free_files=None), "space", GOOD, "the journal may take 5.0 GiB"),
    ],
)
def test_a_disk(disk: DiskFacts, subject: str, verdict: Verdict, says: str) -> None:
    found = list(of_disk(disk, 5 * GIB))
    assert verdicts(found)[subject] is verdict
    assert any(says in one.sentence for one in found if one.subject == subject), found


@pytest.mark.parametrize(
    ("limits", "subject", "verdict", "says"),
    [
        (LIMITS, "open files", GOOD, "100,000 files"),
        (replace(LIMITS, open_files=None), "open files", GOOD, "any number of files"),
        (replace(LIMITS, open_files=10_383), "open files", LOOK, "LimitNOFILE"),
        (replace(LIMITS, open_files=10_384), "open files", GOOD, "10,384 files"),
        (LIMITS, "memory", GOOD, "There are 32.0 GiB"),
        (replace(LIMITS, memory_bytes=6 * GIB - 1), "memory", LOOK, "lower the limits"),
    ],
)
def test_limits_of_the_system(
    limits: LimitFacts, subject: str, verdict: Verdict, says: str
) -> None:
    found = list(of_limits(limits))
    assert verdicts(found)[subject] is verdict
    assert any(says in one.sentence for one in found if one.subject == subject), found


def test_memory_that_nobody_knows_is_not_judged() -> None:
    assert "memory" not in verdicts(list(of_limits(replace(LIMITS, memory_bytes=None))))


@pytest.mark.parametrize(("said", "verdict"), [(True, GOOD), (False, LOOK), (None, LOOK)])
def test_the_clock(said: bool | None, verdict: Verdict) -> None:
    assert of_clock(said).verdict is verdict


@pytest.mark.parametrize(
    ("setting", "state", "owner", "verdict"),
    [
        ("gateway.listen", PortState.FREE, 0, GOOD),
        ("gateway.listen", PortState.FREE, 7, GOOD),
        ("gateway.listen", PortState.AMQP, 0, BAD),
        ("gateway.listen", PortState.AMQP, 7, GOOD),
        ("gateway.listen", PortState.TAKEN, 0, BAD),
        ("gateway.listen", PortState.TAKEN, 7, BAD),
        ("http.listen", PortState.TAKEN, 0, BAD),
        ("http.listen", PortState.TAKEN, 7, GOOD),
        ("gateway.listen", PortState.REFUSED, 0, BAD),
        ("http.listen", PortState.REFUSED, 7, BAD),
    ],
)
def test_a_port(setting: str, state: PortState, owner: int, verdict: Verdict) -> None:
    """With a gateway that runs on the home, its own ports are its own."""
    found = of_port(PortFacts(setting, "127.0.0.1:5672", state, "why"), owner)
    assert found.verdict is verdict
    assert "127.0.0.1:5672" in found.sentence
    assert verdict is GOOD or setting in found.sentence


@pytest.mark.parametrize(
    ("state", "verdict"),
    [
        (HomeState.ABSENT, GOOD),
        (HomeState.EMPTY, GOOD),
        (HomeState.OURS, GOOD),
        (HomeState.FOREIGN, LOOK),
        (HomeState.UNUSABLE, BAD),
    ],
)
def test_a_home(state: HomeState, verdict: Verdict) -> None:
    [found] = of_home(HomeFacts("/srv/orders", state, why="it is a file"))
    assert found.verdict is verdict
    assert "/srv/orders" in found.sentence


def test_a_home_that_a_gateway_has_or_that_is_open_to_all() -> None:
    [found] = of_home(HomeFacts("/h", HomeState.OURS, owner=77))
    assert "pid 77" in found.sentence
    *_, found = of_home(HomeFacts("/h", HomeState.OURS, open_to_all=True))
    assert (found.verdict, "chmod o-w" in found.sentence) == (LOOK, True)


@pytest.mark.parametrize(("others", "verdict"), [(False, GOOD), (True, BAD), (None, BAD)])
def test_a_file_of_passwords(others: bool | None, verdict: Verdict) -> None:
    assert of_secret("users.toml", others).verdict is verdict


@pytest.mark.parametrize(
    ("spark", "version", "verdict"),
    [(False, None, GOOD), (True, None, LOOK), (True, 11, LOOK), (True, 17, GOOD), (True, 21, GOOD)],
)
def test_java(spark: bool, version: int | None, verdict: Verdict) -> None:
    assert of_java(spark=spark, version=version).verdict is verdict


def test_the_worst_of_none_is_good() -> None:
    assert worst([]) is GOOD
