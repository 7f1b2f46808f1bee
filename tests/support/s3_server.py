"""An S3 of our own: a process that speaks HTTP and holds to conditional puts."""

import http.client
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from gateway_process import free_port
from store_process import running


@contextmanager
def served() -> Iterator[dict[str, str]]:
    """Runs it, with a bucket `lake`; what a client must know, as storage options."""
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with running(command, lambda: _made_bucket(port)):
        yield {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_REGION": "us-east-1",
        }


def _made_bucket(port: int) -> bool:
    client = http.client.HTTPConnection("127.0.0.1", port)
    try:
        client.request("PUT", "/lake")
        return client.getresponse().status == 200
    except OSError:
        return False
    finally:
        client.close()
