"""An S3 of our own: a process that speaks HTTP and holds to conditional puts."""

import http.client
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from gateway_process import free_port

#: Seconds that it may take to start on a busy machine.
PATIENCE = 60.0


@contextmanager
def served() -> Iterator[dict[str, str]]:
    """Runs it, with a bucket `lake`; what a client must know, as storage options."""
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + PATIENCE
        while not _made_bucket(port):
            assert time.monotonic() < deadline, "the S3 doesn't answer"
            time.sleep(0.05)
        yield {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_REGION": "us-east-1",
        }
    finally:
        server.kill()
        server.wait()


def _made_bucket(port: int) -> bool:
    client = http.client.HTTPConnection("127.0.0.1", port)
    try:
        client.request("PUT", "/lake")
        return client.getresponse().status == 200
    except OSError:
        return False
    finally:
        client.close()
