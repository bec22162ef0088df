"""The site builds in strict mode without a network, has no broken links, and is accessible."""

from __future__ import annotations

import html
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from tests.docs.pages import PROJECT_FILES, ROOT
from tests.extent import ALL
from tests.reports.browser import Open, Tab
from tests.reports.conftest import browser, open_tab

__all__ = ["browser", "open_tab"]

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built without a network if this user may create network namespaces."""
    folder = tmp_path_factory.mktemp("site")
    alone = ["unshare", "--user", "--map-root-user", "--net"]
    if not shutil.which(alone[0]) or subprocess.run([*alone, "true"], capture_output=True, check=False).returncode:
        alone = []
    command = [*alone, sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", f"--site-dir={folder}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def addresses(site: Path) -> list[str]:
    return sorted(str(path.relative_to(site)) for path in site.rglob("*.html"))


def links(page: Path) -> Iterator[str]:
    for found in re.findall(r'(?:href|src)="([^"]*)"', page.read_text(encoding="utf-8")):
        yield html.unescape(found)


def ids(page: Path) -> set[str]:
    return set(re.findall(r'\bid="([^"]+)"', page.read_text(encoding="utf-8")))


def test_links_in_the_site_lead_to_existing_files_and_anchors(site: Path) -> None:
    wrong = []
    for address in addresses(site):
        page = site / address
        for link in set(links(page)):
            parts = urlsplit(link)
            if parts.scheme in ("http", "https"):
                assert re.fullmatch(r"[a-z0-9-]+(\.[a-z0-9-]+)+(:\d+)?", parts.netloc), (address, link)
                continue
            assert parts.scheme in ("", "data"), (address, link)
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            # An image's fragment is not an anchor: it selects light or dark.
            place = unquote(parts.fragment) if target.suffix == ".html" else ""
            if not target.exists() or (place and place not in {*ids(target), "__toc"}):
                wrong.append((address, link))
    assert wrong == []


def test_links_between_files_of_the_project_lead_to_existing_files() -> None:
    for name in (*PROJECT_FILES, *(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md"))):
        for link in re.findall(r"\]\(([^)\s]+)\)", (ROOT / name).read_text(encoding="utf-8")):
            path = urlsplit(link).path
            if urlsplit(link).scheme or not path:
                continue
            assert ((ROOT / name).parent / path).exists(), (name, link)


def test_light_and_dark_screenshots_are_shown_once_on_the_site_and_on_github(site: Path) -> None:
    written = (ROOT / "docs/view.md").read_text(encoding="utf-8")
    page = (site / "view.html").read_text(encoding="utf-8")
    assert "#only-" not in written and "<picture>" not in page
    names = re.findall(r'srcset="images/([\w-]+)-dark\.png"', written)
    assert names
    for name in names:
        assert re.findall(rf'src="images/({name}[\w-]*\.png#only-\w+)"', page) == [
            f"{name}.png#only-light",
            f"{name}-dark.png#only-dark",
        ]


def test_the_site_loads_nothing_from_other_hosts(site: Path) -> None:
    for address in addresses(site):
        text = (site / address).read_text(encoding="utf-8")
        tags = re.findall(r"<(?:script|img|iframe|link)\b[^>]*>", text)
        assert [tag for tag in tags if re.search(r'(?:src|href)="(?:https?:)?//', tag)] == [], address


@pytest.fixture(scope="module")
def axe() -> str:
    return (files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")


SETTLED = """
new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done))).then(() => {
  for (const own of document.getAnimations()) if (own.effect.getComputedTiming().endTime !== Infinity) own.finish();
  return 0;
})
"""
"""Disables animations: during a change of colours, axe would find too little contrast."""


BROKEN_OPTIONS = """
[...document.querySelectorAll('td .word')].filter(own => own.getClientRects().length > 1).map(own => own.textContent)
"""


CLIPPED = """
[...document.querySelectorAll('pre > code')].filter(own => own.scrollWidth > own.clientWidth + 1)
  .map(own => own.textContent)
"""
COVERED = """
[...document.querySelectorAll('.md-code__nav')].filter(own => own.getBoundingClientRect().left
  < own.closest('pre').querySelector('code').getBoundingClientRect().right - 1).length
"""


def violations(tab: Tab, only: str = "", but: str = "") -> list[str]:
    """Violations that axe finds, optionally of one rule, in a page except for a selector."""
    tab.see(SETTLED)
    options = f"runOnly: ['{only}'], " if only else ""
    where = f"{{exclude: [[{but!r}]]}}" if but else "document"
    call = f"axe.run({where}, {{{options}resultTypes: ['violations'], preload: false}})"
    found: list[dict[str, Any]] = tab.see(f"{call}.then(result => result.violations)")
    return [f"{own['id']}: {node['target']} {node['html'][:200]}" for own in found for node in own["nodes"][:3]]


@pytest.mark.parametrize("half", [0, 1])
def test_pages_are_accessible_and_make_no_network_requests(half: int, site: Path, open_tab: Open, axe: str) -> None:
    tab = open_tab((site / "index.html").as_uri())
    for number, address in enumerate(addresses(site)[half::2]):
        tab.media(dark=False)
        tab.call("Emulation.setDeviceMetricsOverride", width=1280, height=800, deviceScaleFactor=1, mobile=False)
        tab.go((site / address).as_uri())
        tab.wait(f"location.pathname.endsWith({address!r}) && document.body.dataset.mdColorScheme === 'default'")
        tab.see(f"{axe}; 0")
        if ALL or number % 2 == 0:
            assert violations(tab) == [], f"{address}, desktop, light"
        assert (tab.see(CLIPPED), tab.see(COVERED)) == ([], 0), f"{address} cuts off code"
        tab.media(dark=True)
        tab.wait("document.body.dataset.mdColorScheme === 'slate'")
        if address == "index.html":  # the parts around the content are the same on all pages
            assert violations(tab, "color-contrast", but=".md-content") == [], f"{address}, desktop, dark"
        tab.call("Emulation.setDeviceMetricsOverride", width=390, height=800, deviceScaleFactor=1, mobile=True)
        if ALL or number % 2:
            assert violations(tab) == [], f"{address}, phone, dark"
        assert tab.see("document.documentElement.scrollWidth") == 390, f"{address} is wider than a phone"
        assert tab.see(BROKEN_OPTIONS) == [], f"{address} breaks options between lines"
        assert tab.errors == [], address
    assert [own for own in tab.requests if not own.startswith(("file:", "data:", "blob:"))] == []


def test_search_works_without_a_server(site: Path, open_tab: Open) -> None:
    tab = open_tab((site / "index.html").as_uri())
    tab.see("document.querySelector('.md-search__input').focus()")
    tab.type("node-scratch")
    tab.wait("document.querySelector('.md-search-result__item a[href*=\"options.html\"]')")
    assert tab.errors == []


def test_screenshots_follow_the_readers_colour_scheme(site: Path, open_tab: Open) -> None:
    tab = open_tab((site / "index.html").as_uri())
    shown = "[...document.querySelectorAll('article img')].filter(own => own.getClientRects().length)"
    for scheme, picture in (("default", "report.png"), ("slate", "report-dark.png")):
        tab.media(dark=scheme == "slate")
        tab.wait(f"document.body.dataset.mdColorScheme === {scheme!r}")
        assert [Path(src.partition("#")[0]).name for src in tab.see(f"{shown}.map(own => own.src)")] == [picture]
    words = "[...document.querySelectorAll('td .word')].map(own => own.textContent)"
    tab.go((site / "run.html").as_uri())
    assert "--agents-dir=DIR" in tab.see(words)
