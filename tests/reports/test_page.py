"""The HTML report in a real browser, as its readers use it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from pytest_mlebench.catalog import default_catalogue
from pytest_mlebench.reports.page import LOG_BYTES, page
from pytest_mlebench.results.overview import overview
from pytest_mlebench.runs.group import read_group
from pytest_mlebench.runs.outcome import Outcome
from pytest_mlebench.runs.record import RunKey, RunRecord
from pytest_mlebench.sandbox.contract import RUN_LOG, Connection, SandboxAccount, Validation
from tests.groups import make_group, random_record, record_with, save_group
from tests.reports.browser import Open, Tab

WIDTHS = pytest.mark.parametrize("width", [1280, 390], ids=["desktop", "phone"])
SHOWN = "[...document.querySelectorAll('#table tbody tr[id]')].filter(row => !row.hidden && row.offsetHeight)"
CLICK = "new MouseEvent('click', {bubbles: true})"
HOSTILE = (
    "</script><script>window.harm = 1</script><img src=x onerror='window.harm = 1'>"
    "\"' onfocus=window.harm=1 autofocus "
    "\x1b[31mred\x1b[0m \x00\x07\x9b \u202egold\u202c \ud800 {{ 7 * 7 }} ]]> &lt;b&gt;"
)


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> list[RunRecord]:
    """Two agents on the low split and some others, with every outcome."""
    catalogue = default_catalogue()
    chosen = [*catalogue.split("low")[:8], *catalogue.split("high")[:4], *catalogue.split("smoke")]
    made = [random_record(c, agent, seed) for c in chosen for agent in ("aide", "mine/fast") for seed in (0, 1)]
    made += [record_with(catalogue["spaceship-titanic"], outcome, seed=k) for k, outcome in enumerate(Outcome)]
    reached = Connection(at=1.0, host="api.example.com", port=443, allowed=True)
    refused = Connection(at=2.0, host="elsewhere.example.com", port=443, allowed=False)
    sandbox = SandboxAccount(
        name="docker",
        validations=(
            Validation(at=61.0, verdict="The submission is not valid: column 'id' is missing"),
            Validation(at=90.0, verdict="The submission is valid."),
        ),
        connections=(reached, reached, reached, refused),
    )
    made[-1] = replace(made[-1], sandbox=sandbox)
    return made


@pytest.fixture(scope="module")
def report(records: list[RunRecord], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reports") / "group"
    canonical = {"is_canonical": False, "differences": ["8 CPUs instead of 36"]}
    missing = RunKey("aide", records[0].competition_id, 2)
    planned = [*(RunKey(r.agent, r.competition_id, r.seed) for r in records), missing]
    save_group(folder, records, planned=planned, canonical=canonical)
    return write(folder)


def write(folder: Path) -> Path:
    file = folder / "report.html"
    file.write_text(page(overview([read_group(folder)])), encoding="utf-8")
    return file


def shown(tab: Tab, what: str = "row.id") -> list[str]:
    values: list[str] = tab.see(f"{SHOWN}.map(row => {what})")
    return values


def choose(tab: Tab, name: str, value: str) -> None:
    tab.see(f"(field => (field.value = {value!r}, field.dispatchEvent(new Event('input', {{bubbles: true}}))))"
            f"(document.querySelector('[name={name}]'))")  # fmt: skip


def focused(tab: Tab) -> str:
    text: str = tab.see("document.activeElement.textContent.trim() || document.activeElement.name")
    return text


@WIDTHS
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_the_page_fits_its_screen_and_loads_nothing_else(report: Path, open_tab: Open, width: int, dark: bool) -> None:
    tab = open_tab(report.as_uri(), width=width, dark=dark)
    tab.see("document.querySelectorAll('details').forEach(details => details.open = true)")
    assert tab.see("document.documentElement.scrollWidth") <= width == tab.see("innerWidth")
    ends = tab.see("[...document.querySelectorAll('#table *, svg')].map(e => e.getBoundingClientRect().right)")
    assert max(ends) <= width
    assert tab.errors == []
    assert tab.requests == [report.as_uri()]


def test_the_summary_and_the_setting_come_first(report: Path, open_tab: Open) -> None:
    tab = open_tab(report.as_uri())
    text = tab.see("document.body.innerText")
    splits_and_categories = [
        text.index(words)
        for words in ("aide", "any medal on all", "Not canonical", "8 CPUs instead of 36", "Any-medal rates")
    ]
    assert splits_and_categories == sorted(splits_and_categories)
    assert "1 of 73 planned runs have no record yet" in text


@pytest.mark.parametrize("field", ["split", "category", "agent", "ending", "outcome"])
def test_each_filter_shows_the_runs_it_names(
    report: Path, open_tab: Open, records: list[RunRecord], field: str
) -> None:
    tab = open_tab(report.as_uri())
    options = tab.see(f"[...document.querySelector('[name={field}]').options].map(option => option.value)")
    assert options[0] == "" and set(options[1:]) - {"any"} == {getattr(record, field) for record in records}
    for value in options[1:]:
        choose(tab, field, value)
        wanted = {
            f"run-{record.run_id}"
            for record in records
            if (record.report.any_medal if value == "any" else getattr(record, field) == value)
        }
        assert set(shown(tab)) == wanted
        assert tab.see("document.querySelector('#count').textContent") == f"{len(wanted)} of {len(records)} runs"


def test_filters_narrow_each_other_and_are_taken_back_together(
    report: Path, open_tab: Open, records: list[RunRecord]
) -> None:
    tab = open_tab(report.as_uri())
    choose(tab, "split", "low")
    choose(tab, "agent", "aide")
    wanted = [record for record in records if record.split == "low" and record.agent == "aide"]
    assert len(shown(tab)) == len(wanted) == 16
    choose(tab, "outcome", "any")
    assert len(shown(tab)) == sum(record.report.any_medal for record in wanted)
    tab.see("document.querySelector('button[type=reset]').click()")
    tab.wait(f"{SHOWN}.length === {len(records)}")


def test_text_finds_names_errors_and_lines_of_logs(report: Path, open_tab: Open, records: list[RunRecord]) -> None:
    tab = open_tab(report.as_uri())
    choose(tab, "text", "SPACESHIP 'target'")
    assert shown(tab, "row.dataset.outcome") == ["invalid_submission"]
    choose(tab, "text", "could not convert string")  # in the log of runs that crashed
    assert set(shown(tab, "row.dataset.outcome")) == {"crashed"}
    choose(tab, "text", "nowhere to be found")
    assert shown(tab) == [] and tab.see("document.querySelector('#count').textContent").startswith("0 of ")


@pytest.mark.parametrize("column", ["Outcome", "Seed", "Score", "Beats", "Time"])
def test_columns_sort_by_value_and_what_has_none_comes_last(
    report: Path, open_tab: Open, records: list[RunRecord], column: str
) -> None:
    values: dict[str, Callable[[RunRecord], Any]] = {
        "Outcome": lambda r: r.outcome.rank,
        "Seed": lambda r: r.seed,
        "Score": lambda r: r.score,
        "Beats": lambda r: r.report.percentile,
        "Time": lambda r: r.seconds,
    }
    by_id = {f"run-{record.run_id}": values[column](record) for record in records}
    tab = open_tab(report.as_uri())
    header = f"[...document.querySelectorAll('#table th')].find(th => th.textContent === '{column}')"
    known = sorted(value for value in by_id.values() if value is not None)
    for direction, expected in (("ascending", known), ("descending", known[::-1])):
        tab.see(f"{header}.querySelector('button').click()")
        assert tab.see(f"{header}.getAttribute('aria-sort')") == direction
        assert tab.see("document.querySelectorAll('[aria-sort]').length") == 1
        assert [by_id[id] for id in shown(tab)] == expected + [None] * (len(by_id) - len(known))


def test_names_sort_as_text(report: Path, open_tab: Open, records: list[RunRecord]) -> None:
    tab = open_tab(report.as_uri())
    tab.see("document.querySelectorAll('#table thead button')[1].click()")
    names = shown(tab, "row.cells[1].textContent")
    assert names == sorted(names) and len(names) == len(records)


@WIDTHS
def test_details_unfold_below_their_run(report: Path, open_tab: Open, records: list[RunRecord], width: int) -> None:
    tab = open_tab(report.as_uri(), width=width)
    row = f"document.getElementById('run-{records[-1].run_id}')"
    assert "space left on device" not in tab.see("document.body.innerText")
    tab.see(f"{row}.querySelector('summary').click()")
    tab.wait(f"{row}.nextElementSibling.className === 'more-row'")
    details = tab.see(f"{row}.nextElementSibling.innerText")
    for words in (
        "error: the container did not start: no space left on device",
        "after 1:01: The submission is not valid: column 'id' is missing",
        "3 × api.example.com:443",
        "1 × elsewhere.example.com:443 refused",
        "step 8: validation score 0.580",
    ):
        assert words in details
    assert tab.see(f"{row}.nextElementSibling.getBoundingClientRect().width") > 0.9 * (width - 48)
    tab.see("document.querySelector('#table thead button').click()")  # details stay with their run
    assert "space left on device" in tab.see(f"{row}.nextElementSibling.innerText")
    tab.see(f"{row}.querySelector('summary').click()")
    tab.wait("!document.querySelector('.more-row')")
    assert "space left on device" not in tab.see("document.body.innerText")


def test_everything_can_be_done_with_the_keyboard(report: Path, open_tab: Open, records: list[RunRecord]) -> None:
    tab = open_tab(report.as_uri())
    tab.press("Tab")
    assert focused(tab) == "Skip to the runs"
    assert tab.see("document.activeElement.getBoundingClientRect().left") >= 0
    tab.press("Enter")
    tab.wait("document.activeElement.id === 'runs'")
    tab.press("Tab", times=6)  # past the five selections
    assert focused(tab) == "text"
    tab.type("toxic")
    matching = sum("toxic" in record.competition_id for record in records)
    assert len(shown(tab)) == matching > 0
    tab.press("Tab", times=2)  # past the button that shows all, to the scrolling region
    for name in ("Outcome", "Competition"):
        tab.press("Tab")
        assert focused(tab) == name
        outline = tab.see("getComputedStyle(document.activeElement).outlineStyle")
        assert outline == "solid"
    tab.press("Enter")
    assert tab.see("document.querySelector('[aria-sort]').textContent") == "Competition"
    while not (summary := focused(tab)).startswith("Details"):
        tab.press("Tab")
    tab.press("Space")
    tab.wait("document.querySelector('.more-row')")
    assert summary and "validation score" in tab.see("document.querySelector('.more-row').innerText")


def test_a_link_to_a_run_opens_it_even_where_a_filter_hides_it(
    report: Path, open_tab: Open, records: list[RunRecord]
) -> None:
    one, other = (f"run-{record.run_id}" for record in (records[3], records[-1]))
    tab = open_tab(f"{report.as_uri()}#{quote(one)}")
    opened = "[...document.querySelectorAll('details[open]')].map(details => details.closest('tr').id)"
    assert tab.see(opened) == [one]
    assert 0 <= tab.see(f"document.getElementById({one!r}).getBoundingClientRect().top") < 800
    choose(tab, "split", "low")
    tab.see(f"document.querySelector('[data-run=\"{records[-1].run_id}\"] text').dispatchEvent({CLICK})")
    tab.wait(f"{opened}.length === 2 && !document.getElementById({other!r}).hidden")
    assert tab.see("decodeURIComponent(location.hash)") == f"#{other}"
    assert tab.see("document.activeElement.getAttribute('aria-label')").endswith("seed 11")


def test_without_javascript_the_page_is_complete(report: Path, open_tab: Open, records: list[RunRecord]) -> None:
    tab = open_tab(report.as_uri(), scripts=False)
    assert len(shown(tab)) == len(records)
    assert tab.see("document.querySelector('#filters').offsetHeight") == 0
    assert tab.see("document.querySelectorAll('#table thead button').length") == 0
    tab.see("document.querySelector('#table details').open = true")
    assert "validation score" in tab.see("document.querySelector('#table details').innerText")


@WIDTHS
def test_a_screen_reader_gets_names_and_roles(
    report: Path, open_tab: Open, records: list[RunRecord], width: int
) -> None:
    accessible = open_tab(report.as_uri(), width=width).accessible()
    roles = Counter(role for role, _ in accessible)
    assert roles["table"] >= 3 and roles["row"] >= len(records) + 3
    assert roles["columnheader"] >= 11 + 5 and roles["rowheader"] == len(records)
    assert roles["main"] == roles["search"] == roles["status"] == 1 and roles["combobox"] == 5
    nameless = {
        role
        for role, name in accessible
        if not name and role in ("button", "combobox", "searchbox", "link", "image", "region", "DisclosureTriangle")
    }
    assert not nameless
    assert roles["image"] >= 10


def test_colours_follow_the_reader_and_paper_is_light(report: Path, open_tab: Open) -> None:
    tab = open_tab(report.as_uri(), dark=True)
    ground = "getComputedStyle(document.body).backgroundColor"
    word = "getComputedStyle(document.querySelector('.panel text')).fill"
    assert (tab.see(ground), tab.see(word)) == ("rgb(18, 22, 27)", "rgb(230, 235, 241)")
    tab.media(dark=True, print=True)
    assert (tab.see(ground), tab.see(word)) == ("rgb(255, 255, 255)", "rgb(28, 38, 48)")
    assert tab.see("document.querySelector('#filters').offsetHeight") == 0
    tab.media()
    assert tab.see(ground) == "rgb(255, 255, 255)"


@WIDTHS
def test_what_an_agent_writes_is_shown_and_never_obeyed(tmp_path: Path, open_tab: Open, width: int) -> None:
    run = record_with(default_catalogue()["spaceship-titanic"], "invalid_submission")
    sandbox = SandboxAccount(
        name=HOSTILE,
        validations=(Validation(at=1.0, verdict=HOSTILE),),
        connections=(Connection(at=0.1, host=HOSTILE, port=443),),
        left_out=(HOSTILE,),
    )
    hostile = replace(
        run,
        run_id="hostile",
        agent=f"agent {HOSTILE}".replace("\ud800", ""),  # which no folder's name can hold
        detail=HOSTILE,
        error=None,
        report=replace(run.report, error=HOSTILE),
        sandbox=sandbox,
    )
    save_group(tmp_path / "g", [hostile, replace(run, run_id="tame", seed=1)])
    (tmp_path / "g/hostile" / RUN_LOG).write_bytes(
        HOSTILE.encode("utf-8", "surrogatepass") * 20 + b"\r\xff\xfeend of log"
    )
    tab = open_tab(write(tmp_path / "g").as_uri(), width=width)
    tab.see("document.querySelectorAll('details').forEach(details => details.open = true)")
    choose(tab, "text", "onfocus")
    assert len(shown(tab)) == 1
    assert tab.see("window.harm") is None and tab.errors == [] and len(tab.requests) == 1
    assert tab.see("document.scripts.length") == 1 and tab.see("document.images.length") == 0
    assert tab.see("document.documentElement.scrollWidth") <= width == tab.see("innerWidth")
    text = tab.see("document.body.textContent")
    assert "<img src=x" in text and "{{ 7 * 7 }}" in text and "&lt;b&gt;" in text and "end of log" in text
    assert not set(text) & set("\x00\x07\x1b\x9b\u202e\ud800")


def test_several_groups_stand_side_by_side(tmp_path: Path, open_tab: Open) -> None:
    chosen = default_catalogue().split("smoke")
    for name in ("before", "after"):
        make_group(tmp_path / name, competitions=chosen, seeds=1)
    html = page(overview([read_group(tmp_path / name) for name in ("before", "after")]))
    (tmp_path / "report.html").write_text(html, encoding="utf-8")
    tab = open_tab((tmp_path / "report.html").as_uri())
    assert tab.see("[...document.querySelectorAll('.headline h3')].map(e => e.textContent)") == [
        "aide in before",
        "aide in after",
    ]


def test_a_group_of_75_competitions_and_3_seeds_is_under_a_megabyte_without_logs(tmp_path: Path) -> None:
    made = make_group(tmp_path / "g", seeds=3)
    for record in made:
        (tmp_path / "g" / record.run_id / RUN_LOG).write_text("validation <score> & loss, step after step\n" * 1000)
    view = overview([read_group(tmp_path / "g")])
    without, with_logs = (len(page(view, log_bytes=size).encode()) for size in (0, LOG_BYTES))
    assert without < 1_000_000
    assert without + 225 * 1000 < with_logs < without + 225 * LOG_BYTES * 2


def test_a_group_without_a_finished_run_has_a_page_too(tmp_path: Path, open_tab: Open) -> None:
    save_group(tmp_path / "g", [], planned=[RunKey("aide", "spaceship-titanic", 0)])
    tab = open_tab(write(tmp_path / "g").as_uri())
    assert "0 of 1 runs finished" in tab.see("document.body.innerText") and tab.errors == []
