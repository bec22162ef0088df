"""The viewer in Chromium: its display, controls, and protection from hostile content."""

from __future__ import annotations

import itertools
import json
import shutil
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_mlebench.catalog import default_catalogue
from pytest_mlebench.records.group import mark_running
from pytest_mlebench.records.record import RunKey
from tests.groups import make_group, record_with, save_group, with_timeline
from tests.reports.browser import Open, Tab
from tests.viewer.conftest import SMOKE, Ask
from tests.viewer.test_pages import OF_HOSTILE, PAGES, RUN

pytestmark = pytest.mark.full


def foreign(tab: Tab, served: str) -> list[str]:
    return [url for url in tab.requests if not url.startswith((f"{served}/", "data:"))]


def test_no_page_has_errors_overflows_or_sends_external_requests(served: str, open_tab: Open) -> None:
    for page in PAGES:
        for width in (390, 1280):
            tab = open_tab(served + page, width=width, dark=width == 390)
            assert tab.errors == [], page
            assert foreign(tab, served) == [], page
            assert tab.see("document.documentElement.scrollWidth") <= width, page
            unnamed = [role for role, name in tab.accessible() if role in ("button", "link", "textbox") and not name]
            assert unnamed == [], page


def test_long_names_and_plots_fit_every_width(served: str, runs_dir: Path, open_tab: Open) -> None:
    competition, name = default_catalogue()[SMOKE[0]], "a-run-group-of-many-words_" + "x" * 70
    record = record_with(competition, "silver", agent="an-agent-" + "y" * 60)
    save_group(runs_dir / name, [with_timeline(record, competition, (0.5, record.report.median_threshold))])
    run = f"/run/{name}/{record.run_id}"
    pages = ("/", "/runs", f"/group/{name}", run, f"{run}/trajectory", f"{run}/log", f"/competition/{SMOKE[0]}")
    try:
        for page in pages:
            tab = open_tab(served + page)
            for width in (390, 768, 1280):
                size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width == 390}
                tab.call("Emulation.setDeviceMetricsOverride", **size)
                assert tab.see("document.documentElement.scrollWidth") <= width, (page, width)
                parts = ".picture, .tabs" + (", .scroll-x" if width in (390, 1280) else "")
                scrolled = f"[...document.querySelectorAll({parts!r})]"
                wide = tab.see(
                    f"{scrolled}.filter(own => own.scrollWidth > own.clientWidth + 1).map(own => own.className)"
                )
                assert wide == [], (page, width)
                marks = "[...document.querySelectorAll('.mark')].map(own => own.getBoundingClientRect())"
                assert tab.see(f"{marks}.every(place => place.left >= 0 && place.right <= {width})"), (page, width)
    finally:
        shutil.rmtree(runs_dir / name)


def test_no_number_is_alone_in_its_row_and_no_cost_wraps_on_a_phone(served: str, open_tab: Open) -> None:
    rows = "Object.groupBy([...document.querySelectorAll('.stats div')], own => own.getBoundingClientRect().top)"
    lines = (
        "[...document.querySelectorAll('.stats dd, td[data-label=Cost]')].filter(own => own.textContent.includes('$'))"
    )
    for page in ("/", RUN, f"/competition/{SMOKE[0]}"):
        tab = open_tab(served + page, width=390)
        counts = tab.see(f"Object.values({rows}).map(row => row.length)")
        assert counts and min(counts) > 1, (page, counts)
        heights = tab.see(
            f"{lines}.map(own => own.getClientRects()[0].height / parseFloat(getComputedStyle(own).lineHeight))"
        )
        assert all(lines < 2 for lines in heights), page


def test_a_table_offers_to_copy_it_when_the_mouse_is_on_it(served: str, open_tab: Open) -> None:
    tab = open_tab(f"{served}/runs")
    shown = "getComputedStyle(document.querySelector('.table-head .tools')).opacity"
    assert tab.see(shown) == "0"
    row = tab.see("document.querySelector('.list.runs tbody tr').getBoundingClientRect().toJSON()")
    tab.call("Input.dispatchMouseEvent", type="mouseMoved", x=row["x"] + 30, y=row["y"] + 5)
    tab.wait(f"{shown} === '1'")


def test_names_of_runs_have_the_whole_width_of_a_phone(served: str, open_tab: Open) -> None:
    tab = open_tab(f"{served}/runs", width=390)
    assert (
        tab.see("Math.min(...[...document.querySelectorAll('.list.runs tbody th')].map(own => own.offsetWidth))") > 300
    )


def test_output_of_a_hostile_agent_neither_runs_nor_loads_anything(served: str, open_tab: Open) -> None:
    for page in OF_HOSTILE:
        tab = open_tab(served + page)
        assert tab.see("typeof window.owned") == "undefined", page
        assert foreign(tab, served) == [] and tab.errors == [], page


def test_exports_of_a_hostile_agent_neither_run_nor_load_anything(
    served: str, ask: Ask, open_tab: Open, tmp_path: Path
) -> None:
    """Every view exported as a file and opened from disk, and the report of the group."""
    for number, page in enumerate(OF_HOSTILE):
        answer = ask(f"{page}{'&' if '?' in page else '?'}export=1")
        assert answer.status == 200 and "attachment" in answer.headers["content-disposition"], page
        file = tmp_path / f"{number}.html"
        file.write_bytes(answer.body)
        tab = open_tab(file.as_uri())
        assert tab.see("typeof window.owned") == "undefined", page
        assert [url for url in tab.requests if not url.startswith((file.as_uri(), "data:"))] == [], page
        assert tab.errors == [], page


def test_a_live_group_updates_while_it_is_viewed(served: str, runs_dir: Path, open_tab: Open) -> None:
    catalogue = default_catalogue()
    folder = runs_dir / "live"
    folder.mkdir()
    keys = [RunKey("agent", SMOKE[0], seed) for seed in range(4)]
    planned = [{**key._asdict(), "nodeid": ""} for key in keys]
    (folder / "manifest.json").write_text(json.dumps({"run_group": "live", "created_at": "", "runs": planned}))
    with ExitStack() as workers:
        for key in keys:
            run_dir = folder / f"{key.competition_id}_{key.seed}"
            run_dir.mkdir()
            own = mark_running(run_dir, key, worker=f"gw{key.seed}", time_limit=86400.0)
            workers.enter_context(own)
        tab = open_tab(f"{served}/group/live")
        tab.wait("document.querySelectorAll('.worker').length === 4")
        assert tab.see("document.querySelector('[data-left]').textContent").startswith("23:5")
        (folder / f"{SMOKE[0]}_2/run.log").write_text("fold 3 of 5\n")
        tab.wait("document.body.textContent.includes('fold 3 of 5')")
        record = record_with(catalogue[SMOKE[0]], "gold", agent="agent", seed=0)
        replace(record, run_id=f"{SMOKE[0]}_0", run_group="live").write(folder / f"{SMOKE[0]}_0")
        tab.wait("document.querySelectorAll('#table tr[id]').length === 1")
        assert "gold" in tab.see("document.querySelector('#table tr[id]').textContent")
        assert tab.see("document.querySelectorAll('.worker').length") == 3
        log = open_tab(f"{served}/run/live/{SMOKE[0]}_2/log")
        with (folder / f"{SMOKE[0]}_2/run.log").open("a") as file:
            file.write("fold 4 of 5\n")
        log.wait("document.getElementById('log').textContent.includes('fold 4 of 5')")
        assert tab.errors == [] == log.errors


HELD = """
const real = window.fetch;
window.fetch = async (...what) => {
  const answer = await real(...what);
  await new Promise((go) => { window.go = go; });
  return answer;
};
window.release = () => { window.fetch = real; window.go() };
"""
"""Holds responses until ``release()``."""
EVENTS = """
const { live, state } = document.getElementById("live").dataset;
window.events = 0;
const count = (event) => { window.events += event.data !== state; };
const source = new EventSource(live);
for (const name of ["state", "change"]) source.addEventListener(name, count);
"""
"""Counts changes that the server reports."""


def test_changes_during_a_fetch_or_below_an_open_dialog_are_shown_afterwards(
    served: str, runs_dir: Path, open_tab: Open
) -> None:
    key = RunKey("agent", SMOKE[0], 0)
    run_dir = runs_dir / "changing/run"
    run_dir.mkdir(parents=True)
    (runs_dir / "changing/manifest.json").write_text(json.dumps({"run_group": "g", "runs": [key._asdict()]}))

    def log(tab: Tab, text: str) -> None:
        before = tab.see("window.events")
        (run_dir / "run.log").write_text(f"{text}\n")
        tab.wait(f"window.events > {before}")
        time.sleep(1.5)  # the page's own connection may be up to a second later

    with mark_running(run_dir, key, worker="gw0", time_limit=86400.0):
        tab = open_tab(f"{served}/group/changing")
        tab.see(EVENTS)
        tab.see("document.getElementById('keys').showModal()")
        log(tab, "fold 1")
        assert "fold 1" not in tab.see("document.body.textContent")
        tab.see("document.getElementById('keys').close()")
        tab.wait("document.body.textContent.includes('fold 1')")
        tab.see(HELD)
        log(tab, "fold 2")
        log(tab, "fold 3")
        tab.see("window.release()")
        tab.wait("document.body.textContent.includes('fold 3')")
        assert tab.errors == []


def test_a_reader_moves_through_a_long_trajectory_and_sends_a_link_to_a_step(served: str, open_tab: Open) -> None:
    tab = open_tab(f"{served}{RUN}/trajectory")
    shown = "[...document.querySelectorAll('[data-step]')].map(step => Number(step.dataset.step))"
    tab.see("document.querySelector('[data-go=error]').click()")
    tab.wait("location.hash === '#s-100'")
    tab.see("document.querySelector('[data-to=\"1500\"]').click()")
    tab.wait(f"{shown}.includes(1500) && location.hash === '#s-1500'")
    for _ in range(8):
        last = tab.see(f"Math.max(...{shown})")
        tab.see("scrollTo(0, document.documentElement.scrollHeight)")
        tab.wait(f"Math.max(...{shown}) > {last}")
    numbers = tab.see(shown)
    assert numbers == list(range(numbers[0], numbers[-1] + 1)) and len(numbers) <= 160
    sent = open_tab(f"{served}{RUN}/trajectory?from=1777#s-1777")
    assert 0 <= sent.see("document.getElementById('s-1777').getBoundingClientRect().top") < 400
    assert tab.errors == [] == sent.errors


def test_scrolling_through_thousands_of_steps_lays_out_only_visible_ones(served: str, open_tab: Open) -> None:
    """Boxes for each step, or layouts that a script forces between writes, would slow down each frame."""
    tab = open_tab(f"{served}{RUN}/trajectory")
    tab.wait("document.querySelectorAll('[data-act=turn]').length >= 40")
    tab.call("Performance.enable")

    def metrics() -> dict[str, float]:
        return {own["name"]: own["value"] for own in tab.call("Performance.getMetrics")["metrics"]}

    before = metrics()
    for _ in range(60):
        tab.see("new Promise(done => { scrollBy(0, 700); requestAnimationFrame(() => requestAnimationFrame(done)) })")
    after = metrics()
    assert tab.see("Math.max(...[...document.querySelectorAll('[data-step]')].map(s => s.dataset.step))") > 120
    assert before["LayoutObjects"] < 2000 and (after["LayoutCount"] - before["LayoutCount"]) / 60 < 5
    assert tab.see("document.querySelectorAll('[data-step]').length") <= 160
    assert tab.see("document.querySelectorAll('.outline [aria-current]').length") > 0
    assert tab.see("document.querySelector('.in-view').width.baseVal.value") > 0


def test_a_log_of_50_mb_opens_at_its_end_and_scrolls_with_few_lines_in_the_page(
    served: str, runs_dir: Path, open_tab: Open
) -> None:
    log = runs_dir / "two/smoke-digits_agent-two-0/run.log"
    with log.open("w") as file:
        for block in range(500):
            file.write("".join(f"{block:03}.{line:04} loss 0.123 {'x' * 60}\n" for line in range(1250)))
    size = log.stat().st_size
    tab = open_tab(f"{served}/run/two/smoke-digits_agent-two-0/log")
    assert "499.1249" in tab.see("document.querySelector('.part:last-child').textContent")
    for _ in range(20):
        first = tab.see("Number(document.querySelector('.part').dataset.start)")
        tab.see("document.getElementById('log').scrollTop = 0")
        tab.wait(f"Number(document.querySelector('.part').dataset.start) < {first}")
    parts = tab.see(
        "[...document.querySelectorAll('.part')].map(p => [Number(p.dataset.start), Number(p.dataset.end)])"
    )
    assert len(parts) <= 13 and all(one[1] == other[0] for one, other in itertools.pairwise(parts))
    found = open_tab(f"{served}/run/two/smoke-digits_agent-two-0/log?q=250.0777")
    assert found.see("document.querySelectorAll('.hits li').length") == 1
    found.see("document.querySelector('.hits a').click()")
    found.wait("document.querySelector('.l.here')?.textContent.startsWith('250.0777')")
    assert size > 50_000_000 and tab.errors == [] == found.errors


def test_search_comparison_and_copying_work_with_only_the_keyboard(served: str, open_tab: Open) -> None:
    tab = open_tab(served)
    key = "key => document.body.dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true, cancelable: true}))"
    tab.see(f"({key})('/')")
    tab.type("agent-one")
    tab.wait("[...document.querySelectorAll('#groups tbody tr')].filter(row => !row.hidden).length === 1")
    assert "t.groups.text=agent-one" in tab.see("location.hash")
    again = open_tab(tab.see("location.href"))
    assert again.see("[...document.querySelectorAll('#groups tbody tr')].filter(row => !row.hidden).length") == 1

    def arrived(path: str) -> None:
        tab.wait(f"location.pathname === '{path}' && document.readyState === 'complete'")

    tab.see("document.activeElement.blur()")
    tab.see(f"({key})('j')")
    tab.press("Enter")
    arrived("/group/one")
    tab.go(f"{served}/competition/{SMOKE[0]}")
    tab.see("[...document.querySelectorAll('#runs thead button')].find(b => b.textContent === 'Score').click()")
    tab.see("navigator.clipboard.writeText = async text => { window.copied = text }")
    tab.see("document.querySelector('[data-copy=md]').click()")
    tab.wait("window.copied")
    lines = tab.see("window.copied").splitlines()
    assert lines[0].startswith("| Outcome |") and lines[1].count("---:") >= 4 and len(lines) >= 5
    tab.see("document.querySelector('[data-copy=csv]').click()")
    tab.wait("window.copied.startsWith('Outcome,')")
    back = open_tab(served)
    back.see(
        "document.querySelectorAll('[name=g]').forEach(box => { if (['one', 'two'].includes(box.value)) box.click() })"
    )
    back.see("document.querySelector('[data-compare]').click()")
    back.wait("location.pathname === '/compare' && document.readyState === 'complete'")
    assert back.see("document.querySelectorAll('#matrix tbody tr').length") == 3
    assert tab.errors == [] == back.errors


def test_steps_can_be_collapsed_filtered_copied_and_shown_as_recorded(served: str, open_tab: Open) -> None:
    tab = open_tab(f"{served}{RUN}/trajectory")
    hidden = "[...document.querySelectorAll('.step-body')].filter(own => own.hidden).length"
    count = "document.querySelectorAll('[data-step]').length"
    tab.see("document.querySelector('[data-go=fold]').click()")
    assert tab.see(f"{hidden} === {count} && {count} >= 40")
    tab.see("scrollTo(0, document.documentElement.scrollHeight)")
    tab.wait(f"{count} > 40 && {hidden} === {count}")  # also for steps loaded later
    tab.see("document.querySelector('[data-step] [data-act=turn]').click()")
    tab.wait(f"{hidden} === {count} - 1")
    tab.see("document.querySelector('[data-go=unfold]').click()")
    assert tab.see(hidden) == 0
    tab.see("navigator.clipboard.writeText = async text => { window.copied = text }")
    tab.see("document.querySelector('[data-step].agent [data-act=copy]').click()")
    tab.wait("window.copied?.includes('python train.py')")
    tab.see("document.querySelector('[data-step].agent [data-raw]').click()")
    tab.wait("document.querySelector('.raw')?.textContent.includes('\"tool_call_id\"')")
    tab.see("document.querySelector('[data-step].agent [data-raw]').click()")
    tab.wait("!document.querySelector('.raw')")
    tab.see("document.querySelector('[name=kind][value=error]').click()")
    tab.wait("location.search.includes('kind=error') && document.readyState === 'complete'")
    tab.wait("document.querySelectorAll('.outline li').length === 20")
    tab.see("document.querySelector('[data-to=\"1900\"]').click()")
    tab.wait("location.hash === '#s-1900'")
    numbers = tab.see("[...document.querySelectorAll('[data-step]')].map(step => Number(step.dataset.step))")
    assert numbers == list(range(100, 2001, 100)) and tab.errors == []


def test_arrow_keys_move_between_snapshots_and_each_is_announced(served: str, open_tab: Open) -> None:
    tab = open_tab(f"{served}/run/one/smoke-breast-cancer_agent-one-0")
    named = "document.activeElement.getAttribute('aria-label') ?? ''"
    assert tab.see("document.querySelectorAll('.mark[tabindex=\"0\"]').length") == 1
    tab.see("document.querySelector('.mark[tabindex=\"0\"]').focus()")
    said = [tab.see(named)]
    for _ in range(2):
        tab.press("ArrowRight")
        said.append(tab.see(named))
    assert said[0].startswith("after 12 s: not valid") and "the last one" in said[2] and len(set(said)) == 3
    assert tab.see("document.querySelector('.readout').textContent") == said[2]
    tab.press("Home")
    assert tab.see(named) == said[0]
    announced = [name for role, name in tab.accessible() if role == "link" and name.startswith("after ")]
    assert announced == said
    tab.press("Enter")
    tab.wait("location.pathname.endsWith('/trajectory') && location.search.startsWith('?at=')")
    assert tab.errors == []


def test_escape_closes_the_column_menu_and_keeps_the_focus(served: str, open_tab: Open) -> None:
    tab = open_tab(f"{served}/runs")
    tab.see("document.querySelector('.columns summary').focus()")
    tab.press("Enter")
    tab.wait("document.querySelector('.columns').open")
    tab.press("Tab")
    assert tab.see("document.activeElement.matches('.columns input')")
    tab.press("Escape")
    tab.wait("!document.querySelector('.columns').open")
    assert tab.see("document.activeElement.matches('.columns summary')")


def test_without_scripts_only_working_controls_are_shown(served: str, open_tab: Open) -> None:
    shown = "[...document.querySelectorAll('input, button')].filter(own => own.getClientRects().length)"
    for page in ("/", "/group/one", f"/competition/{SMOKE[0]}"):
        tab = open_tab(served + page, scripts=False)
        idle = "own => own.matches('[data-filter], #filters *, [data-copy], #theme, #help, [data-print]')"
        assert tab.see(f"{shown}.filter({idle}).length") == 0, page
        assert "Compare selected" in tab.see("document.body.innerText") or page != "/"


def test_rows_have_one_height_times_are_relative_and_filters_apply_at_once(
    served: str, runs_dir: Path, open_tab: Open
) -> None:
    competitions = default_catalogue().split("low")[:6]
    make_group(
        runs_dir / "wide", agents=["a", "react/a-model-with-a-very-long-name-20250514-high"], competitions=competitions
    )
    try:
        tab = open_tab(f"{served}/runs?group=wide")
        heights = "[...document.querySelectorAll('#all-runs tbody tr, #table tr[id]')].map(row => row.offsetHeight)"
        assert len(tab.see(heights)) == 36 and max(tab.see(heights)) - min(tab.see(heights)) <= 1
        assert tab.see("(own => own.scrollWidth <= own.clientWidth)(document.querySelector('.scroll-x'))")
        ends = "[...document.querySelectorAll('.ends span:last-child')].map(own => own.getClientRects().length)"
        assert set(tab.see(ends)) == {1}
        shown = tab.see("(own => [own.textContent, own.title])(document.querySelector('#all-runs time'))")
        assert "2026" not in shown[0] and "2026" in shown[1]
        assert tab.see("document.querySelector('.facets [type=submit]').offsetHeight") == 0
        tab.see(
            "setTimeout(own => (own.value = 'a', own.dispatchEvent(new Event('change', {bubbles: true}))), 0,"
            " document.querySelector('select[name=agent]')), 0"
        )
        tab.wait("document.querySelectorAll('#all-runs tbody tr').length === 18")
        assert "agent=a" in tab.see("location.search")
        tab.go(f"{served}/group/wide")
        assert len(tab.see(heights)) == 36 and max(tab.see(heights)) - min(tab.see(heights)) <= 1
        tab.see("document.querySelector('[name=outcome]').click()")
        tab.wait("document.querySelector('#count').textContent.includes(' of 36 runs')")
    finally:
        shutil.rmtree(runs_dir / "wide")
