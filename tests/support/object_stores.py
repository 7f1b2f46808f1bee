"""Object stores of third parties over HTTP, by the scheme of their addresses."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import azure_server
import pytest
import s3_server
from node_program import node_missing

#: For each scheme of an address: the option that says where its store listens.
ENDPOINTS: Mapping[str, str] = {"s3": "AWS_ENDPOINT_URL", "az": "AZURE_STORAGE_ENDPOINT"}


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
        return self.options | {ENDPOINTS[self.scheme]: "http://127.0.0.1:1"}


@contextmanager
def served(scheme: str) -> Iterator[Served]:
    """Runs one. Where it can't be, the test is skipped; with `CI=true` it fails."""
    if scheme == "az":
        if (missing := node_missing()) is not None:
            assert os.environ.get("CI") != "true", missing
            pytest.skip(missing)
        with azure_server.served() as options:
            yield Served(scheme, options)
    else:
        with s3_server.served() as options:
            yield Served(scheme, options)
