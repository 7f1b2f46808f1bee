"""Object stores over HTTP, by the scheme of their addresses: third-party ones of S3 and Azure. No
emulator of Google's has conditional puts of its XML API, which obstore uses: ours stands in."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import azure_server
import pytest
import s3_server
from faulty_s3 import FaultyS3, faulty_s3
from node_program import node_missing

_NOWHERE = "http://127.0.0.1:1"
#: For each scheme of an address: options of a store that doesn't answer.
GONE: Mapping[str, Mapping[str, str]] = {
    "s3": {"AWS_ENDPOINT_URL": _NOWHERE},
    "az": {"AZURE_STORAGE_ENDPOINT": _NOWHERE},
    "gs": FaultyS3(1).google,
}


@dataclass(frozen=True)
class Served:
    """A store that runs, with a bucket or container `lake`."""

    scheme: str
    options: dict[str, str]

    @property
    def url(self) -> str:
        return f"{self.scheme}://lake"

    def gone(self) -> dict[str, str]:
        """The options of a store that doesn't answer."""
        return {**self.options, **GONE[self.scheme]}


@contextmanager
def served(scheme: str) -> Iterator[Served]:
    """Runs one. Where it can't be, the test is skipped; with `CI=true` it fails."""
    if scheme == "az":
        if (missing := node_missing()) is not None:
            assert os.environ.get("CI") != "true", missing
            pytest.skip(missing)
        with azure_server.served() as options:
            yield Served(scheme, options)
    elif scheme == "gs":
        with faulty_s3() as store:
            yield Served(scheme, store.google)
    else:
        with s3_server.served() as options:
            yield Served(scheme, options)
