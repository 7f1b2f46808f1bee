"""`distributary console`: what can't be meant is one sentence and an exit code."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest
from gateway_process import commands


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home" / "journal").mkdir(parents=True)
    return tmp_path / "home"


def said(home: Path, *words: str) -> tuple[int, str]:
    done = commands().run("console", "--home", str(home), *words)
    assert not done.stdout
    assert "Traceback" not in done.stderr
    return done.returncode, done.stderr


def test_a_home_that_is_none(tmp_path: Path) -> None:
    code, text = said(tmp_path)
    assert (code, "is no gateway's home" in text) == (2, True)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--listen", "8161"), "--listen is HOST:PORT, not '8161'"),
        (("--listen", "127.0.0.1:99999"), "--listen is HOST:PORT"),
        (("--metrics", "here"), "--metrics is HOST:PORT"),
        (("--listen", "0.0.0.0:0"), "passwords would go there as they are typed"),
        (("--tables", "lake"), "--tables is an address such as s3://BUCKET/FOLDER, not 'lake'"),
        (("--tables", "ftp://lake/x"), "the address ftp://lake/x/topic_log can't be used"),
        (("--tls-key", "k.pem"), "--tls-key is of no use without --tls-cert"),
        (("--tls-cert", "c.pem"), "c.pem is no file"),
        (("--tls-ca", "ca.pem"), "ca.pem is no file"),
        (("--listen", "nowhere.invalid:1", "--without-tls"), "can't listen on nowhere.invalid:1"),
    ],
)
def test_what_can_not_be_meant(home: Path, words: tuple[str, ...], sentence: str) -> None:
    code, text = said(home, *words)
    assert code == 2
    assert sentence in text


def test_neither_a_home_nor_tables() -> None:
    done = commands().run("console")
    assert done.returncode == 2
    assert "name the place of the gateway's tables by --home or --tables" in done.stderr


def test_a_certificate_that_is_none(home: Path, tmp_path: Path) -> None:
    (tmp_path / "c.pem").write_text("no certificate")
    code, text = said(home, "--tls-cert", str(tmp_path / "c.pem"))
    assert code == 2
    assert "c.pem can't be used with its key" in text


def test_a_port_that_is_taken(home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        code, text = said(home, "--listen", f"127.0.0.1:{taken.getsockname()[1]}")
    assert code == 1
    assert "Address already in use. Name another one by --listen" in text


def test_without_its_packages(home: Path) -> None:
    """Without the extra the sentence says how to install it."""
    code = (
        "import sys; sys.modules['starlette'] = None; "
        "from distributary.ingest.cli.main import main; main()"
    )
    words = [sys.executable, "-c", code, "console", "--home", str(home)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == (
        "distributary: the console needs starlette: pip install 'distributary[console]'\n"
    )
