"""`make docs`: the site is whole, works from a folder, and finds what it has."""

import importlib.util
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import ModuleType

import chromium
import pytest
from playwright.sync_api import Browser, Page, expect
from playwright.sync_api import TimeoutError as Late

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "deploy" / "site" / "build_site.py"
NAVIGATION = PROGRAM.with_name("navigation.toml").read_text()
PYTHON = ROOT / "build" / "docs-env" / "bin" / "python"
SITE = ROOT / "build" / "site"


def imported() -> ModuleType:
    spec = importlib.util.spec_from_file_location("build_site", PROGRAM)
    assert spec is not None and spec.loader is not None  # noqa: PT018
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


build_site = imported()


@pytest.fixture(scope="module")
def site() -> Path:
    """The site, made by `make docs`; the first time this installs the builder."""
    done = subprocess.run(
        ["make", f"PYTHON={sys.executable}", "docs"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return SITE


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium.running() as made:
        yield made


@pytest.fixture
def window(site: Path, browser: Browser) -> Iterator[Page]:
    """A page of the site as a file. It asks no host, and no script of it fails."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    page = context.new_page()
    wrong: list[str] = []
    page.on("request", lambda one: wrong.append(one.url) if one.url.startswith("http") else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.goto((site / "index.html").as_uri())
    yield page
    context.close()
    assert not wrong, wrong


def names() -> list[str]:
    return [build_site.as_page(name) for name in build_site.pages(ROOT)]


def test_each_page_stands_in_the_navigation_once() -> None:
    """For each reader one tab; a guide that is added has a place, any other page is asked for."""
    tabs = build_site.tabs(NAVIGATION, names())
    assert list(tabs) == [
        *("Home", "Applications", "Data", "Operations", "Contributing", "Decisions"),
    ]
    assert sorted(page for pages in tabs.values() for page in pages) == sorted(names())
    more = build_site.tabs(NAVIGATION, [*names(), "docs/guides/new.md", "examples/new/README.md"])
    assert "docs/guides/new.md" in more["Operations"]
    assert "examples/new/README.md" in more["Applications"]
    with pytest.raises(ValueError, match=r"no place for docs/a/b/new\.md"):
        build_site.tabs(NAVIGATION, [*names(), "docs/a/b/new.md"])
    with pytest.raises(ValueError, match=r"names docs/limits\.md"):
        build_site.tabs(NAVIGATION, [name for name in names() if name != "docs/limits.md"])


def test_each_page_is_there_and_has_its_words(site: Path) -> None:
    """Notebooks with their output, too. Nothing of a page is shown as it was typed."""
    for name in names():
        page = site / re.sub("README$", "index", name.removesuffix(".md"))
        text = page.with_suffix(".html").read_text()
        article = text[text.index("<article") : text.index("</article>")]
        shown = re.sub(r"<pre.*?</pre>|<code>.*?</code>", "", article, flags=re.DOTALL)
        raw = re.findall(r"^(?:<(?:p|li)>)?(?:\* |- |\||#+ |```).*$", shown, re.MULTILINE)
        assert not raw, (name, raw)
        assert "](" not in shown, name
    assert "subscription" in (site / "docs" / "notebooks" / "who_got_what.html").read_text()
    assert list((site / "docs" / "notebooks").glob("who_got_what-*.png"))


def test_nothing_comes_from_another_host(site: Path) -> None:
    """No script, font, style or picture: links alone lead out."""
    for page in site.rglob("*.html"):
        text = page.read_text()
        loaded = re.findall(r'<(?:script|img|iframe)[^>]*\bsrc="?(http[^" >]*)', text)
        loaded += re.findall(r'<link[^>]*rel="?(?:stylesheet|preconnect)[^>]*http', text)
        assert not loaded, (page, loaded)
    for style in site.rglob("*.css"):
        assert not re.search(r"url\([\"']?http|@import", style.read_text()), style


def test_the_index_has_what_people_look_for(site: Path) -> None:
    _, _, text = (site / "search.js").read_text().partition("=")
    items = json.loads(text.strip().rstrip(";"))["items"]
    for word, page in (
        ("lingerSeconds", "docs/guides/spark-source.html"),
        ("virtual topic", "docs/guides/coming-from.html"),
        ("x-opt-dead-letter-reason", "docs/redelivery.html"),
        ("watchdog", "docs/guides/deploy.html"),
    ):
        found = {item["location"].partition("#")[0] for item in items if word in _plain(item)}
        assert page in found, word


def _plain(item: dict[str, str]) -> str:
    return re.sub(r"<[^>]*>", "", f"{item['title']} {item['text']}")


def test_a_reader_finds_a_page_from_a_folder(window: Page) -> None:
    """Tabs lead to each reader's pages, and the search works without a server."""
    window.get_by_role("link", name="Operations").first.click()
    expect(window.get_by_role("heading", level=1)).to_contain_text("Running as a service")
    window.wait_for_load_state("networkidle")
    window.keyboard.press("Control+k")
    box = window.locator("input:focus")
    box.wait_for()
    hit = window.get_by_text("A subscription as a source of Spark").filter(visible=True).first
    for _ in range(10):  # what is typed before the search's scripts listen is lost, as for people
        box.fill("")
        box.fill("lingerSeconds")
        with suppress(Late):
            hit.wait_for(timeout=5_000)
            break
    hit.click()
    expect(window.get_by_role("heading", level=1)).to_contain_text("A subscription as a source")


@pytest.mark.usefixtures("site")
@pytest.mark.parametrize("link", ["nothing.md", "limits.md#nothing"])
def test_a_link_that_leads_nowhere_ends_the_build(tmp_path: Path, link: str) -> None:
    """Its page and line are said."""
    root = tmp_path / "root"
    (root / "docs").mkdir(parents=True)
    (root / "deploy" / "site").mkdir(parents=True)
    (root / "deploy" / "site" / "navigation.toml").write_text(
        '[[tab]]\ntitle = "All"\npages = ["README.md", "CHANGELOG.md", "docs/*.md"]\n'
    )
    for name in ("README.md", "CHANGELOG.md", "docs/limits.md"):
        (root / name).write_text("# A page\n")
    (root / "docs" / "bad.md").write_text(f"# Another\n\nA [link]({link}).\n")
    program = [PYTHON, PROGRAM, "--root", root, "--to", tmp_path / "site"]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "docs/bad.md:3:" in done.stdout + done.stderr
    assert not (tmp_path / "site").exists()
    shutil.rmtree(root)
