"""The viewer is accessible: axe-core finds nothing on any page, and the keyboard alone is enough."""

from __future__ import annotations

import pytest

from tests.reports.browser import Open, violations_anywhere
from tests.viewer.test_pages import HOSTILE, PAGES, RUN, SIDE

pytestmark = pytest.mark.full
SHORT = "/run/one/smoke-diabetes_agent-one-0"
PLACES = [page.replace(RUN, SHORT) for page in PAGES]
PLACES += [f"{RUN}", f"{SHORT}/trajectory?kind=tool&q=seed", f"{SHORT}/log?errors=1", HOSTILE, f"{SIDE}&full=1"]
PLACES += ["/nowhere", "/runs?q=no"]


@pytest.mark.parametrize("page", PLACES)
def test_axe_finds_nothing_in_light_and_dark_on_a_desktop_and_a_phone(page: str, served: str, open_tab: Open) -> None:
    assert violations_anywhere(open_tab(served + page)) == []


def test_a_step_can_be_reached_and_left_with_only_the_keyboard(served: str, open_tab: Open) -> None:
    tab = open_tab(served)

    def follow(selector: str, path: str) -> None:
        """Press Tab until a link has the focus, which must be visible, then Enter."""
        for _ in range(120):
            tab.press("Tab")
            if tab.see(f"document.activeElement.matches({selector!r})"):
                break
        assert tab.see("document.activeElement.matches(':focus-visible')"), selector
        assert tab.see("getComputedStyle(document.activeElement).outlineStyle") == "solid", selector
        tab.press("Enter")
        tab.wait(f"location.pathname === {path!r} && document.readyState === 'complete'")

    follow("a.skip", "/")
    assert tab.see("document.activeElement.id") == "main"
    follow("#groups a[href='/group/one']", "/group/one")
    follow(f"#runs a[href='{SHORT}']", SHORT)
    follow(f".tabs a[href='{SHORT}/trajectory']", f"{SHORT}/trajectory")
    follow(".outline a[data-to='3']", f"{SHORT}/trajectory")
    tab.wait("document.activeElement.id === 's-3' && location.hash === '#s-3'")
    tab.press("j")
    tab.wait("document.activeElement.closest('[data-step]').id === 's-4'")
    tab.press("k")
    tab.press("k")
    tab.wait("document.activeElement.closest('[data-step]').id === 's-2'")
    for path in (SHORT, "/group/one", "/"):
        tab.press("u")
        tab.wait(f"location.pathname === {path!r} && document.readyState === 'complete'")
    tab.press("j")
    tab.press("Enter")
    tab.wait("location.pathname.startsWith('/group/') && document.readyState === 'complete'")
    tab.press("?")
    tab.wait("document.getElementById('keys').open")
    tab.press("Escape")
    tab.wait("!document.getElementById('keys').open")
    assert tab.errors == []
