"""An Azure Blob Storage over HTTP: Azurite, a third-party emulator, which npm installs by a lock
file."""

import base64
import hashlib
import hmac
import http.client
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from pathlib import Path

from gateway_process import free_port
from node_program import install
from store_process import running

SOURCES = Path(__file__).parent / "azurite"
BUILT = Path(__file__).parents[2] / "build" / "azurite"
PROGRAM = BUILT / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"
#: The account and the key that every Azurite has.
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
VERSION = "2021-12-02"


@contextmanager
def served() -> Iterator[dict[str, str]]:
    """Runs it, with a container `lake`; what a client must know, as storage options. Raises
    ModulesMissing."""
    node, port = install(SOURCES, BUILT), free_port()
    listens = ("--blobHost", "127.0.0.1", "--blobPort", str(port))
    how = ("--inMemoryPersistence", "--silent", "--skipApiVersionCheck")
    with running([node.program, str(PROGRAM), *listens, *how], lambda: _made_container(port)):
        yield {
            "AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT,
            "AZURE_STORAGE_ACCOUNT_KEY": KEY,
            "AZURE_STORAGE_ENDPOINT": f"http://127.0.0.1:{port}/{ACCOUNT}",
            "AZURE_ALLOW_HTTP": "true",
        }


def _made_container(port: int) -> bool:
    """Create Container with a shared key: no client of ours makes containers."""
    headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": VERSION}
    said = "".join(f"{name}:{value}\n" for name, value in headers.items())
    signed = "PUT" + "\n" * 12 + f"{said}/{ACCOUNT}/{ACCOUNT}/lake\nrestype:container"
    digest = hmac.new(base64.b64decode(KEY), signed.encode(), hashlib.sha256).digest()
    headers["Authorization"] = f"SharedKey {ACCOUNT}:{base64.b64encode(digest).decode()}"
    client = http.client.HTTPConnection("127.0.0.1", port)
    try:
        client.request("PUT", f"/{ACCOUNT}/lake?restype=container", headers=headers)
        return client.getresponse().status == 201
    except OSError:
        return False
    finally:
        client.close()
