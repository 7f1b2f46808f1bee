"""A manifest's content comes back unchanged; foreign, newer or damaged manifests are refused."""

import json

import pytest

from distributary.pipeline.backup.backup_manifest import (
    BackedFile,
    BackupManifest,
    BackupPoint,
    digest_of,
)
from distributary.pipeline.errors import InvalidRequest, StoreError
from distributary.pipeline.log.log_identity import LogIdentity

A, B = digest_of(b"a"), digest_of(b"b")
POINT = BackupPoint(1_700_000_000.5, LogIdentity("id", 7, "00ff"), 12, 340)
MANIFEST = BackupManifest(
    POINT,
    (
        BackedFile("journal/00000001.journal", 4096, 0o644, (A, B)),
        BackedFile("settings/security.users/users.toml", 3, 0o600, (A,)),
        BackedFile("tables/topic_log/empty", 0, 0o644, ()),
    ),
)


def test_it_comes_back_as_it_was() -> None:
    assert BackupManifest.decode(MANIFEST.encode(), "here") == MANIFEST
    assert MANIFEST.pieces == {A, B}
    assert MANIFEST.size == 4099
    assert [file.of_settings for file in MANIFEST.files] == [False, True, False]


@pytest.mark.parametrize("at", [3, 40, 100, 130, 200, -2])
def test_a_changed_byte_is_refused(at: int) -> None:
    """Wherever it is: in the first line, in the digest, in the body."""
    data = bytearray(MANIFEST.encode())
    data[at] ^= 1
    with pytest.raises((StoreError, InvalidRequest)):
        BackupManifest.decode(bytes(data), "here")


@pytest.mark.parametrize("bytes_left", [0, 10, 130, 300])
def test_one_that_ends_too_early_is_damaged(bytes_left: int) -> None:
    with pytest.raises(StoreError, match="here is damaged"):
        BackupManifest.decode(MANIFEST.encode()[:bytes_left], "here")


def test_a_newer_format_is_named() -> None:
    first, rest = MANIFEST.encode().split(b"\n", 1)
    newer = json.dumps(json.loads(first) | {"format": 3}).encode() + b"\n" + rest
    with pytest.raises(InvalidRequest, match="newer format, 3; this program reads up to 2"):
        BackupManifest.decode(newer, "here")


def test_another_thing_is_no_manifest() -> None:
    with pytest.raises(InvalidRequest, match="here is no manifest"):
        BackupManifest.decode(b'{"kind": "a web page"}\n', "here")


@pytest.mark.parametrize("path", ["/etc/passwd", "../up", "tables/../../up", ""])
def test_a_path_that_leads_out_of_the_home_is_refused(path: str) -> None:
    bad = BackupManifest(POINT, (BackedFile(path, 0, 0o644, ()),))
    with pytest.raises(StoreError, match="leads out of the home"):
        BackupManifest.decode(bad.encode(), "here")


@pytest.mark.parametrize("piece", ["", "../lock", "A" * 64, "0" * 63])
def test_what_is_no_digest_is_no_piece(piece: str) -> None:
    bad = BackupManifest(POINT, (BackedFile("a", 0, 0o644, (piece,)),))
    with pytest.raises(StoreError, match="is no piece"):
        BackupManifest.decode(bad.encode(), "here")
