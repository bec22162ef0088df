"""The HTML report in a real browser."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlsplit

import pytest

from pytest_mlebench.catalog import default_catalogue
from pytest_mlebench.records.outcome import Connection, Outcome, SandboxAccount, Validation
from pytest_mlebench.records.record import RUN_LOG, RunKey, RunRecord
from pytest_mlebench.reports.page import LOG_BYTES, LOGS_BYTES, page
from pytest_mlebench.reports.run_details import run_details
from pytest_mlebench.reports.tables import in_order
from pytest_mlebench.results import read_group
from pytest_mlebench.results.overview import overview
from tests.groups import make_group, random_record, record_with, save_group
from tests.reports.browser import Open, Tab, violations_anywhere

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
    """Two agents with every outcome on the low split and some other competitions."""
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


def tick(tab: Tab, outcome: str) -> None:
    """Select an outcome, or clear the selection."""
    tab.see(f"document.querySelector('[name=outcome][value={outcome}]').click()")


def focused(tab: Tab) -> str:
    text: str = tab.see("document.activeElement.textContent.trim() || document.activeElement.name")
    return text


@WIDTHS
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_the_page_fits_its_screen_and_loads_nothing_else(report: Path, open_tab: Open, width: int, dark: bool) -> None:
    tab = open_tab(report.as_uri(), width=width, dark=dark)
    tab.see("document.querySelectorAll('details').forEach(details => details.open = true)")
    assert tab.see("document.documentElement.scrollWidth") <= width == tab.see("innerWidth")
    ends = tab.see("[...document.querySelectorAll('#table *, .panel')].map(e => e.getBoundingClientRect().right)")
    assert max(ends) <= width
    assert tab.errors == []
    assert tab.requests == [report.as_uri()]


def test_cards_come_first_then_outcomes_runs_plots_rates_and_the_setting(report: Path, open_tab: Open) -> None:
    tab = open_tab(report.as_uri())
    text = tab.see("document.body.innerText")
    places = [
        text.index(words)
        for words in (
            "aide earned a medal in",
            "any medal on all",
            "Every run’s outcome",
            "Beats",
            "Details",
            "Any-medal rates",
            "pass@k",
            "Not canonical",
            "8 CPUs instead of 36",
        )
    ]
    assert places == sorted(places)
    assert "1 of 73 planned runs have no record yet" in text


@pytest.mark.parametrize("field", ["split", "category", "agent", "ending"])
def test_each_filter_shows_the_matching_runs(
    report: Path, open_tab: Open, records: list[RunRecord], field: str
) -> None:
    tab = open_tab(report.as_uri())
    options = tab.see(f"[...document.querySelector('[name={field}]').options].map(option => option.value)")
    assert options[0] == "" and set(options[1:]) == {getattr(record, field) for record in records}
    for value in options[1:]:
        choose(tab, field, value)
        wanted = {f"run-{record.run_id}" for record in records if getattr(record, field) == value}
        assert set(shown(tab)) == wanted
        assert tab.see("document.querySelector('#count').textContent") == f"{len(wanted)} of {len(records)} runs"


def test_outcomes_are_chips_that_add_up_and_apply_at_once(
    report: Path, open_tab: Open, records: list[RunRecord]
) -> None:
    tab = open_tab(report.as_uri())
    chips: list[str] = tab.see("[...document.querySelectorAll('[name=outcome]')].map(chip => chip.value)")
    assert chips[0] == "any" and set(chips[1:]) == {record.outcome for record in records}
    tick(tab, "any")
    assert len(shown(tab)) == sum(record.report.any_medal for record in records)
    tick(tab, "crashed")
    wanted = {f"run-{r.run_id}" for r in records if r.report.any_medal or r.outcome is Outcome.crashed}
    assert set(shown(tab)) == wanted
    assert tab.see("location.hash") == "#outcome=any%2Ccrashed"
    assert set(shown(open_tab(tab.see("location.href")))) == wanted
    tick(tab, "any")
    assert set(shown(tab, "row.dataset.outcome")) == {"crashed"}


def test_filters_combine_and_are_reset_together(report: Path, open_tab: Open, records: list[RunRecord]) -> None:
    tab = open_tab(report.as_uri())
    choose(tab, "split", "low")
    choose(tab, "agent", "aide")
    wanted = [record for record in records if record.split == "low" and record.agent == "aide"]
    assert len(shown(tab)) == len(wanted) == 16
    tick(tab, "any")
    assert len(shown(tab)) == sum(record.report.any_medal for record in wanted)
    tab.see("document.querySelector('button[type=reset]').click()")
    tab.wait(f"{SHOWN}.length === {len(records)}")


def test_text_finds_names_errors_and_lines_of_logs(report: Path, open_tab: Open, records: list[RunRecord]) -> None:
    tab = open_tab(report.as_uri())
    choose(tab, "text", "SPACESHIP 'target'")
    assert shown(tab, "row.dataset.outcome") == ["invalid_submission"]
    choose(tab, "text", "could not convert string")  # in the log of crashed runs
    assert set(shown(tab, "row.dataset.outcome")) == {"crashed"}
    choose(tab, "text", "nowhere to be found")
    assert shown(tab) == [] and tab.see("document.querySelector('#count').textContent").startswith("0 of ")


@pytest.mark.parametrize("column", ["Outcome", "Seed", "Score", "Beats", "Time"])
def test_columns_sort_by_value_with_missing_values_last(
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
    tab.see("document.querySelector('#table th.agent button').click()")
    names = shown(tab, "row.querySelector('.agent').textContent")
    assert names == sorted(names) and len(names) == len(records)
    tab.see("document.querySelector('#table th.competition button').click()")
    names = shown(tab, "row.querySelector('.competition').textContent")
    assert names == sorted(names) and len(names) == len(records)


@pytest.mark.parametrize("width", [1280, 1920, 390])
def test_runs_are_listed_under_their_competition_with_its_thresholds(
    report: Path, open_tab: Open, records: list[RunRecord], width: int
) -> None:
    tab = open_tab(report.as_uri(), width=width)
    heads = tab.see("[...document.querySelectorAll('#table .group')].map(row => row.innerText)")
    boards = {record.competition_id: record for record in records}
    assert len(heads) == len(boards)
    for head in heads:
        record = boards[head.split()[0]]
        assert record.split in head and record.category in head
        assert all(f"{name} {score:.5f}" in head for name, score in record.thresholds.items())
        assert f"{'lower' if record.report.is_lower_better else 'higher'} is better" in head
    below = tab.see(f"{SHOWN}.map(row => [row.id, row.parentElement.dataset.id])")
    assert dict(below) == {f"run-{r.run_id}": r.competition_id for r in records}


def test_in_another_order_each_run_shows_its_competition_and_thresholds(
    report: Path, open_tab: Open, records: list[RunRecord]
) -> None:
    tab = open_tab(report.as_uri(), width=1920)
    tab.see("document.querySelector('#table th.score button').click()")
    by_id = {f"run-{record.run_id}": record for record in records}
    cells: list[list[str]] = tab.see(f"{SHOWN}.map(row => [row.id, row.cells[1].innerText, row.cells[5].innerText])")
    assert len(cells) == len(records)
    for id, competition, thresholds in cells:
        assert competition == by_id[id].competition_id
        assert all(f"{name} {score:.5f}" in thresholds for name, score in by_id[id].thresholds.items())
    choose(tab, "sort", "")
    assert tab.see("document.querySelectorAll('#table .group').length") > 10
    assert tab.see("document.querySelector('#table td.thresholds').offsetHeight") == 0


def test_filters_and_order_are_in_the_url_and_back_works(report: Path, open_tab: Open) -> None:
    tab = open_tab(report.as_uri())
    choose(tab, "split", "low")
    choose(tab, "agent", "mine/fast")
    tab.see("document.querySelector('#table th.time button').click()")
    tab.see("document.querySelector('#table th.time button').click()")
    choose(tab, "text", "toxic & more")
    choose(tab, "text", "toxic")
    address = tab.see("location.href")
    assert address.partition("#")[2] == "text=toxic&split=low&agent=mine%2Ffast&sort=-time"
    ids = shown(tab)
    again = open_tab(address)
    assert shown(again) == ids and len(ids) == 2
    assert again.see("document.querySelector('[name=agent]').value") == "mine/fast"
    assert again.see("document.querySelector('[aria-sort]').getAttribute('aria-sort')") == "descending"
    assert 0 <= again.see("document.getElementById('runs').getBoundingClientRect().top") < 400
    for field in ("sort", "sort", "agent", "split"):  # typed text adds no history entry
        assert tab.see(f"document.querySelector('[name={field}]').value")
        before = tab.see("location.href")
        tab.see("history.back()")
        tab.wait(f"location.href !== {before!r} && document.querySelector('[name=text]').value === ''")
    tab.wait(f"{SHOWN}.length === 72")


@pytest.mark.parametrize("address", ["#outcome=nonsense&sort=evil&other=1", "#run-%", "#run-none", "#=", "#plots"])
def test_a_url_without_matches_shows_all_runs(
    report: Path, open_tab: Open, records: list[RunRecord], address: str
) -> None:
    tab = open_tab(f"{report.as_uri()}{address}")
    assert len(shown(tab)) == len(records) and tab.errors == []


def test_the_header_stays_visible_while_scrolling(report: Path, open_tab: Open) -> None:
    tab = open_tab(report.as_uri())
    tab.see("document.querySelectorAll('#table .group')[6].nextElementSibling.scrollIntoView({block: 'center'})")
    tops = (
        "[...document.querySelectorAll('#table thead th')].map(th => th.getBoundingClientRect()).filter(r => r.width)"
    )
    legend = "document.querySelector('.legend').getBoundingClientRect()"
    assert tab.see(f"{legend}.top") == 0 and "mine/fast" in tab.see("document.querySelector('.legend').innerText")
    assert all(abs(top["top"] - tab.see(f"{legend}.bottom")) < 1 for top in tab.see(f"{tops}.map(r => r.toJSON())"))
    behind = tab.see("document.elementFromPoint(200, 85).closest('.group').getBoundingClientRect().height")
    assert behind > 20
    phone = open_tab(report.as_uri(), width=390)
    phone.see("document.querySelectorAll('#table .group')[6].nextElementSibling.scrollIntoView({block: 'center'})")
    assert phone.see("!!document.elementFromPoint(100, 47).closest('.group')")


@pytest.mark.parametrize("width", [1920, 1280, 768, 390])
def test_text_in_plots_is_never_small_and_wide_screens_are_used(report: Path, open_tab: Open, width: int) -> None:
    tab = open_tab(report.as_uri(), width=width)
    smallest = tab.see(
        "Math.min(...[...document.querySelectorAll('.plot text')].map(text =>"
        " parseFloat(getComputedStyle(text).fontSize) * text.getScreenCTM().a))"
    )
    assert smallest >= 11
    right = tab.see("Math.max(...[...document.querySelectorAll('.panel')].map(e => e.getBoundingClientRect().right))")
    assert 0.9 * width - 60 < right <= width
    cut = (
        "[...document.querySelectorAll('.panel')].filter(p => p.scrollWidth > p.clientWidth"
        " && getComputedStyle(p).overflowX !== 'auto').length"
    )
    assert tab.see(cut) == 0


def test_on_a_very_wide_screen_plots_grow_with_the_text(report: Path, open_tab: Open) -> None:
    tab = open_tab(report.as_uri(), width=3840)
    assert tab.see("getComputedStyle(document.body).fontSize") == "24px"
    ratio = "document.querySelector('.plot text').getBoundingClientRect().height"
    assert tab.see(ratio) > 1.3 * open_tab(report.as_uri(), width=1280).see(ratio)
    assert tab.see("document.documentElement.scrollWidth") <= 3840


def test_on_a_phone_no_name_overlaps_its_rate(tmp_path: Path, open_tab: Open) -> None:
    name = "an-agent-whose-name-Would-Make-a-Wide-line-v2.1"
    make_group(tmp_path / "g", competitions=default_catalogue().split("low"), agents=[name], seeds=3)
    tab = open_tab(write(tmp_path / "g").as_uri(), width=390)
    own = "[...document.querySelectorAll('.plot text.b')].map(text => text.getBoundingClientRect())"
    boxes = tab.see(f"{own}.map(box => [Math.round(box.top), box.left, box.right])")
    rows = [sorted(box[1:] for box in boxes if box[0] == top) for top in {box[0] for box in boxes}]
    assert any(len(row) == 2 for row in rows)
    assert all(one[1] <= other[0] for row in rows for one, other in itertools.pairwise(row))
    right = "Math.max(...[...document.querySelectorAll('.plot text')].map(t => t.getBoundingClientRect().right))"
    assert tab.see(right) <= 390


def test_names_in_plots_are_distinguishable(tmp_path: Path, open_tab: Open) -> None:
    names = [f"an-agent-with-a-long-name-of-family-{k}" for k in range(8)]
    make_group(tmp_path / "g", competitions=default_catalogue().split("low"), agents=names, seeds=1)
    tab = open_tab(write(tmp_path / "g").as_uri())
    words = tab.see("[...document.querySelectorAll('.plot text')].map(text => text.textContent)")
    for competition in default_catalogue().split("low"):
        id = competition.id
        assert any(word == id or ("…" in word and id.endswith(word.partition("…")[2])) for word in words)
    english, russian = (f"{k}-language" for k in ("sh", "an"))
    assert any(w.endswith(english) for w in words) and any(w.endswith(russian) for w in words)
    columns = [w for w in words if w.startswith("an-") and "…" in w]
    assert len(set(columns)) >= len(names)
    marks = "[...document.querySelectorAll('.legend [class*=f-agent]')]"
    shape = "mark.tagName + (mark.getAttribute('d') || '').replace(/[^A-Z]/gi, '')"
    marks = tab.see(f"{marks}.map(mark => mark.getAttribute('class') + {shape})")
    assert len(marks) == len(names) == len(set(marks))


@pytest.mark.parametrize("plot", ["outcomes", "scores"])
def test_a_mark_links_to_its_run(report: Path, open_tab: Open, plot: str) -> None:
    tab = open_tab(report.as_uri())
    marks = f"[...document.querySelectorAll('.{plot} [data-run]')]"
    said = tab.see(f"{marks}[7].querySelector('title').textContent")
    tab.see(f"{marks}[7].querySelector('title').nextElementSibling.dispatchEvent({CLICK})")
    tab.wait("document.querySelector('.opened')")
    name = tab.see("document.activeElement.getAttribute('aria-label')")
    assert ", ".join(name.split(", ")[1:]) == said.partition(":")[0]
    assert tab.see("location.hash") == "#" + quote(tab.see("document.querySelector('.opened').id"), safe="")


def test_a_run_links_to_its_existing_files(tmp_path: Path, open_tab: Open) -> None:
    competition = default_catalogue()["spaceship-titanic"]
    made = [record_with(competition, "gold", seed=k) for k in range(3)]
    odd = replace(made[0], run_id="javascript:alert(1)#?%20 &\"'<b>")
    save_group(tmp_path / "g", [odd, made[1], made[2]])
    hostile, tame, linked = (tmp_path / "g" / run.run_id for run in (odd, made[1], made[2]))
    (hostile / "code").mkdir()
    (hostile / "code/main.py").touch()
    (hostile / "logs").mkdir()  # empty
    (tame / "submission/submission.csv").unlink()
    (linked / "code").symlink_to("/")
    (linked / "submission/submission.csv").unlink()
    (linked / "submission/submission.csv").symlink_to("/etc/passwd")
    folder = tmp_path / "g"
    file = folder / "report.html"
    file.write_text(page(overview([read_group(folder)]), folder=folder), encoding="utf-8")
    tab = open_tab(file.as_uri())
    links = tab.see("[...document.querySelectorAll('.files a')].map(link => [link.textContent, link.href])")
    assert Counter(name for name, _ in links) == {
        "submission/submission.csv": 1, "code/": 1, "run.log": 3, "run.json": 3,
    }  # fmt: skip
    for name, href in links:
        assert href.startswith("file:///") and Path(unquote(urlsplit(href).path)).exists(), name
        assert Path(unquote(urlsplit(href).path)).parent.is_relative_to(folder)
    assert tab.see("document.querySelectorAll('.files a').length") == len(links) and tab.errors == []
    elsewhere = tmp_path / "other/report.html"
    elsewhere.parent.mkdir()
    elsewhere.write_text(page(overview([read_group(folder)]), folder=elsewhere.parent), encoding="utf-8")
    assert 'href="../g/' in elsewhere.read_text() and 'class="files"' not in page(overview([read_group(folder)]))


def test_on_a_phone_controls_take_two_lines_and_tables_show_that_they_scroll(report: Path, open_tab: Open) -> None:
    tab = open_tab(report.as_uri(), width=390)
    tops = tab.see(
        "[...document.querySelectorAll('#filters [type=search], #filters .chip:not([hidden])')]"
        ".map(e => Math.round(e.getBoundingClientRect().top / 10))"
    )
    assert len(tops) >= 10 and len(set(tops)) == 2
    wide = tab.see("[...document.querySelectorAll('.scroll, .choices')].filter(e => e.scrollWidth > e.clientWidth)"
        ".map(e => getComputedStyle(e).backgroundImage)")  # fmt: skip
    assert len(wide) >= 3 and all(image.count("gradient") == 4 for image in wide)
    panels = "[...document.querySelectorAll('.panel')]"
    reached = tab.see(f"{panels}.map(p => [p.scrollWidth > p.clientWidth, p.tabIndex === 0])")
    assert [True, True] in reached and [True, False] not in reached and [False, True] not in reached


def test_a_filter_with_one_value_is_hidden(tmp_path: Path, open_tab: Open) -> None:
    make_group(tmp_path / "g", competitions=[default_catalogue()["spaceship-titanic"]], seeds=1)
    tab = open_tab(write(tmp_path / "g").as_uri())
    assert tab.see("[...document.querySelectorAll('#filters select')].map(e => e.name)") == ["sort"]
    assert tab.see("document.querySelector('#count').textContent") == "1 run"


def test_sizes_times_and_limits_are_human_readable(report: Path, open_tab: Open) -> None:
    text = open_tab(report.as_uri()).see("document.querySelector('#setting').innerText")
    assert "time limit 24 h, processors 36, memory 440 GiB, GPUs 1" in text


def test_notes_of_a_sandbox_are_human_readable() -> None:
    limits = {"time_limit": 5400.0, "memory": 8 << 30, "log_bytes": 64 << 20, "processes": None}
    notes = ("not enforced: network", "for each process only: disk")
    run = record_with(default_catalogue()["spaceship-titanic"], "gold")
    run = replace(run, sandbox=SandboxAccount(name="local", limits=limits, network="not enforced", notes=notes))
    details = dict(run_details(run))
    assert (
        details["sandbox"] == "local, network not enforced\nnotes: not enforced: network; for each process only: disk"
    )
    assert details["limits"] == "time limit 1 h 30 min, processors 36, memory 8 GiB, GPUs 1, log 64 MiB"


@pytest.mark.parametrize("seeds", [1, 3])
def test_few_runs_have_a_wide_interval(tmp_path: Path, open_tab: Open, seeds: int) -> None:
    chosen = default_catalogue().split("smoke")
    made = [
        record_with(competition, outcome, seed=seed)
        for competition, outcome in zip(chosen, ("gold", "bronze", "no_medal"), strict=True)
        for seed in range(seeds)
    ]
    save_group(tmp_path / "g", made)
    text = open_tab(write(tmp_path / "g").as_uri()).see("document.body.innerText")
    assert "± 0.0" not in text and "[0.0, 100.0]" not in text
    assert "95 % interval 21–94 %" in text and "[20.8, 93.9]" in text


@WIDTHS
def test_details_expand_below_their_run(report: Path, open_tab: Open, records: list[RunRecord], width: int) -> None:
    tab = open_tab(report.as_uri(), width=width)
    row = f"document.getElementById('run-{records[-1].run_id}')"
    assert "validation score 0.580" not in tab.see("document.body.innerText")
    tab.see(f"{row}.querySelector('summary').click()")
    tab.wait(f"{row}.nextElementSibling.className === 'more-row'")
    details = tab.see(f"{row}.nextElementSibling.innerText")
    for words in (
        "the container did not start: no space left on device",
        "The agent was not started",
        "after 1 min 1 s: The submission is not valid: column 'id' is missing",
        "3 × api.example.com:443",
        "1 × elsewhere.example.com:443 refused",
        "step 8: validation score 0.580",
    ):
        assert words in details
    assert tab.see(f"{row}.nextElementSibling.getBoundingClientRect().width") > 0.9 * (width - 48)
    tab.see("document.querySelector('#table thead button').click()")  # details stay below their run
    assert "validation score 0.580" in tab.see(f"{row}.nextElementSibling.innerText")
    tab.see(f"{row}.querySelector('summary').click()")
    tab.wait("!document.querySelector('.more-row')")
    assert "validation score 0.580" not in tab.see("document.body.innerText")


def test_everything_can_be_done_with_the_keyboard(report: Path, open_tab: Open, records: list[RunRecord]) -> None:
    tab = open_tab(report.as_uri())
    tab.press("Tab")
    assert focused(tab) == "Skip to the runs"
    assert tab.see("document.activeElement.getBoundingClientRect().left") >= 0
    tab.press("Enter")
    tab.wait("document.activeElement.id === 'runs'")
    tab.press("Tab")
    assert focused(tab) == "text"
    tab.type("toxic")
    matching = sum("toxic" in record.competition_id for record in records)
    assert len(shown(tab)) == matching > 0
    tab.press("Tab")
    tab.press("Space")
    tab.press("Space")  # a chip is selected and cleared
    while tab.see("document.activeElement.closest('#filters') !== null"):
        tab.press("Tab")
    assert focused(tab) == "Outcome"
    tab.press("Tab")
    assert focused(tab) == "Agent"
    assert tab.see("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    tab.press("Enter")
    assert tab.see("document.querySelector('[aria-sort]').textContent") == "Agent"
    while not (summary := focused(tab)).startswith("Details"):
        tab.press("Tab")
    tab.press("Space")
    tab.wait("document.querySelector('.more-row')")
    assert summary and "validation score" in tab.see("document.querySelector('.more-row').innerText")


def test_a_link_to_a_run_opens_it_even_if_a_filter_hides_it(
    report: Path, open_tab: Open, records: list[RunRecord]
) -> None:
    one, other = (f"run-{record.run_id}" for record in (records[3], records[-1]))
    tab = open_tab(f"{report.as_uri()}#{quote(one)}")
    opened = "[...document.querySelectorAll('tr details[open]')].map(details => details.closest('tr').id)"
    assert tab.see(opened) == [one]
    assert 0 <= tab.see(f"document.getElementById({one!r}).getBoundingClientRect().top") < 800
    choose(tab, "split", "low")
    number = in_order(records).index(records[-1])
    tab.see(f"document.querySelector('.outcomes [data-run=\"{number}\"] text').dispatchEvent({CLICK})")
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
    assert roles["columnheader"] >= 8 + 5 and roles["rowheader"] == len(records) + 16
    assert roles["main"] == roles["search"] == roles["status"] == 1 and roles["combobox"] == 5
    assert roles["checkbox"] == 1 + len({record.outcome for record in records})
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


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_the_outline_of_a_medal_that_is_not_firm_is_visible(tmp_path: Path, open_tab: Open, dark: bool) -> None:
    medals = zip(default_catalogue().split("low"), ("gold", "silver", "bronze"), strict=False)
    records = [record_with(competition, medal) for competition, medal in medals]
    records = [replace(record, report=replace(record.report, firm=False)) for record in records]
    save_group(tmp_path / "g", records)
    tab = open_tab(write(tmp_path / "g").as_uri(), dark=dark)
    kinds = tab.see("[...new Set([...document.querySelectorAll('.loose')].map(own => own.textContent))].sort()")
    lines = tab.see("[...document.querySelectorAll('.loose')].map(own => getComputedStyle(own).outlineColor)")
    assert kinds == ["bronze", "gold", "silver"]
    assert set(lines) == {tab.see("getComputedStyle(document.body).color")}


def test_axe_finds_nothing_in_light_and_dark_on_a_desktop_and_a_phone(report: Path, open_tab: Open) -> None:
    tab = open_tab(report.as_uri())
    tab.see("document.querySelectorAll('.info, #table tr:nth-child(-n+3) details').forEach(own => own.open = true)")
    assert violations_anywhere(tab) == []


@WIDTHS
def test_agent_output_is_shown_and_never_executed(tmp_path: Path, open_tab: Open, width: int) -> None:
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
        agent=f"agent {HOSTILE}".replace("\ud800", ""),  # not possible in a folder name
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


def test_several_groups_are_shown_side_by_side(tmp_path: Path, open_tab: Open) -> None:
    chosen = default_catalogue().split("smoke")
    for name in ("before", "after"):
        make_group(tmp_path / name, competitions=chosen, seeds=1)
    html = page(overview([read_group(tmp_path / name) for name in ("before", "after")]))
    (tmp_path / "report.html").write_text(html, encoding="utf-8")
    tab = open_tab((tmp_path / "report.html").as_uri())
    assert tab.see("[...document.querySelectorAll('.headline h2')].map(e => e.textContent)") == [
        "aide in before",
        "aide in after",
    ]


def test_numbers_link_to_the_runs_behind_them_by_full_names(tmp_path: Path) -> None:
    folders = [tmp_path / f"2026-03-0{day}T00-00-00-of-a-long-name" for day in (1, 2)]
    record = replace(record_with(default_catalogue()["spaceship-titanic"], "gold"), split="alloys")
    for folder in folders:
        save_group(folder, [record])
    text = page(overview([read_group(folder) for folder in folders]))
    found = re.findall(r'<td class="number"><a class="plain-link" href="#([^"]*)"', text)
    links = [dict(parse_qsl(link.replace("&amp;", "&"))) for link in found]
    assert {(link["agent"], link["split"]) for link in links} == {(f"agent in {f.name}", "alloys") for f in folders}
    assert all(f'<option value="{link["agent"]}"' in text for link in links)


def test_the_page_of_75_competitions_and_3_seeds_is_small_even_with_long_logs(tmp_path: Path) -> None:
    made = make_group(tmp_path / "g", seeds=3)
    for record in made:
        (tmp_path / "g" / record.run_id / RUN_LOG).write_text("validation <score> & loss, step after step\n" * 1000)
    view = overview([read_group(tmp_path / "g")])
    folder = tmp_path / "g"
    without, with_logs = (len(page(view, folder=folder, log_bytes=size).encode()) for size in (0, LOG_BYTES))
    assert without + LOGS_BYTES / 2 < with_logs < 670_000
    assert without < 530_000


def test_a_group_without_a_finished_run_also_has_a_page(tmp_path: Path, open_tab: Open) -> None:
    save_group(tmp_path / "g", [], planned=[RunKey("aide", "spaceship-titanic", 0)])
    tab = open_tab(write(tmp_path / "g").as_uri())
    text = tab.see("document.body.innerText")
    assert "\naide on spaceship-titanic\n" in text and "No run has finished yet (1 planned run)." in text
    assert "1 of 1 planned run has no result yet." in text and tab.errors == []
