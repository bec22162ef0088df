"""Plots match the records and are accessible."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_mlebench.catalog import default_catalogue
from pytest_mlebench.errors import UsageError
from pytest_mlebench.records.group import RunGroup
from pytest_mlebench.records.outcome import Outcome
from pytest_mlebench.records.record import RunKey, RunRecord
from pytest_mlebench.reports.palette import COLOURS
from pytest_mlebench.reports.plots import (
    heat_map,
    medal_shares,
    plots,
    position,
    run_numbers,
    score_plot,
    share_beaten,
    write_plots,
)
from pytest_mlebench.reports.plots.rates import cost_plot, medal_rates, over_time_plot, tick_distance, time_plot
from pytest_mlebench.results import read_group
from pytest_mlebench.results.overview import PublishedResult, overview, timelines
from pytest_mlebench.results.statistics import Rate
from pytest_mlebench.results.summary import SplitSummary, summarise
from tests.groups import make_group, record_with, with_timeline
from tests.reports.browser import Open

SPACESHIP = default_catalogue()["spaceship-titanic"]
SVG = "{http://www.w3.org/2000/svg}"
AGENTS = ["agent"]


def run(outcome: str, *, seed: int = 0, agent: str = "agent", hours: float = 1.0) -> RunRecord:
    return replace(record_with(SPACESHIP, outcome, agent=agent, seed=seed), seconds=hours * 3600)


def run_low(outcome: str, seed: int) -> RunRecord:
    return record_with(default_catalogue().split("low")[1], outcome, seed=seed)


def summed(*records: RunRecord) -> list[SplitSummary]:
    return summarise([RunGroup(folder=Path("g"), records=records)])


def titles(plot: str) -> list[str]:
    return [title.text or "" for title in ElementTree.fromstring(plot).iter(f"{SVG}title")]


def test_the_heat_map_has_a_cell_for_every_run_with_its_letter() -> None:
    records = [run(outcome, seed=k) for k, outcome in enumerate(Outcome)]
    tree = ElementTree.fromstring(heat_map(records, {}, agents=AGENTS).file())
    cells = {cell.get("data-run"): cell.findtext(f"{SVG}text") for cell in tree.iter(f"{SVG}g") if cell.get("data-run")}
    assert cells == {str(number): record.outcome.letter for number, record in enumerate(records)}
    legend = "".join(tree.itertext())
    assert all(f"{name.label}: 1" in legend for name in Outcome)


def test_the_heat_map_marks_planned_runs_that_have_no_record() -> None:
    done = run("gold")
    planned = {RunKey("agent", SPACESHIP.id, seed): "dev" for seed in range(3)}
    planned |= {RunKey("agent", "leaf-classification", 0): "low"}
    plot = heat_map([done], planned, agents=AGENTS).file()
    assert "without a record yet: 3" in plot and "low · 1 competition" in plot
    assert "without a record" not in heat_map([done], {}, agents=AGENTS).file()


def test_the_heat_map_shows_the_best_competitions_first() -> None:
    chosen = default_catalogue().split("dev")[:3]
    outcomes = ("no_medal", "gold", "bronze")
    records = [record_with(competition, outcome) for competition, outcome in zip(chosen, outcomes, strict=True)]
    shown = [title for title in titles(heat_map(records, {}, agents=AGENTS).file()) if title in {c.id for c in chosen}]
    assert shown == [chosen[1].id, chosen[2].id, chosen[0].id]


@given(st.data())
def test_a_score_is_drawn_in_the_area_of_its_medal(data: st.DataObject) -> None:
    board = data.draw(st.sampled_from([competition.leaderboard for competition in default_catalogue()]))
    known = [*board.percentiles, board.gold, board.silver, board.bronze, board.median]
    near = data.draw(st.sampled_from(known)) + data.draw(st.sampled_from([0.0, 1e-7, -1e-7, 1e-3, -1e-3]))
    score = data.draw(st.sampled_from([near]) | st.floats(min(known) - 1, max(known) + 1))
    share = share_beaten(board, score)
    assert share is not None
    field = next((medal for medal, start in medal_shares(board).items() if share >= start), None)
    assert field == board.medal(score)
    assert share >= (board.percentile(score) or 0)


def test_a_run_without_a_score_has_no_place_on_the_leaderboard() -> None:
    board = SPACESHIP.leaderboard
    assert share_beaten(board, None) is None and share_beaten(board, float("nan")) is None
    records = [run("crashed"), run("gold", seed=1)]
    plot = score_plot(records, {SPACESHIP.id: board}, run_numbers(records), agents=AGENTS).file()
    assert "1×" in plot and sum("beats" in title for title in titles(plot)) == 1


def test_the_axis_of_scores_goes_from_none_to_all_teams_beaten() -> None:
    positions = [position(share) for share in range(101)]
    assert positions[0] == 0 and positions[-1] == 1 and positions == sorted(positions)


def test_competitions_without_a_leaderboard_are_counted_not_drawn() -> None:
    assert "left out: 1" in score_plot([run("gold")], {}, {}, agents=AGENTS).more


@pytest.mark.parametrize(
    "how",
    [{"twin": {"key": "k", "size": "small"}}, {"report": replace(run("gold").report, generated="twin")}],
    ids=["run", "read from a grading report"],
)
def test_a_twin_is_not_drawn_on_the_real_leaderboard(how: Any) -> None:
    twin, real = replace(run("gold"), **how), run_low("gold", 0)
    view = overview([RunGroup(folder=Path("g"), records=(twin, real))])
    (scores,) = (plot for plot in plots(view) if plot.name == "scores")
    marks = re.findall(r'data-run="(\d+)"', "".join(panel.body for panel in scores.panels))
    assert marks == [str(run_numbers(view.records)[real.key])] == ["1"], "the number of its row in the table"


def test_ticks_are_few_and_round_for_any_amount() -> None:
    lengths = [10.0**k * digit for k in range(-3, 300) for digit in (1, 3, 8, 9)]
    assert all(length / tick_distance(length) <= 8 for length in lengths)
    assert [tick_distance(length) for length in (0.0, 24.0, 8000.0, 8001.0, 1e12)] == [0.5, 3, 1000, 1e4, 1e12]


@pytest.mark.parametrize("amount", [1e12, 1e308, math.inf, math.nan])
def test_any_time_and_cost_can_be_drawn(amount: float) -> None:
    records = [replace(run("gold"), seconds=amount, llm={"calls": 1, "cost": amount}), run("bronze", seed=1)]
    records = [with_timeline(record, SPACESHIP, (0.5, record.score)) for record in records]
    over_time = over_time_plot(records, timelines(records), agents=AGENTS)
    for plot in (over_time, time_plot(records, agents=AGENTS), cost_plot(records, agents=AGENTS)):
        assert plot is not None and len(re.findall(r"H[\d.]+", bodies := "".join(p.body for p in plot.panels))) > 1
        assert not re.search(r"[HV](inf|nan)", bodies)


def test_time_is_shown_per_medal_and_as_a_limit() -> None:
    # Medals after 1, 2 and 6 hours, 3 more hours without one: 12 hours in all, 4 for each medal.
    ends = (("gold", 1), ("bronze", 2), ("silver", 6), ("no_medal", 3))
    records = [run(outcome, seed=k, hours=hours) for k, (outcome, hours) in enumerate(ends)]
    (panel,) = time_plot(records, agents=AGENTS).panels
    assert panel.description == "3 medals in 12 h, 4 h each; half of them within 2 h"
    # The axes span six hours and all four runs, from (0, 214) to (1000, 54); gold is the front area.
    areas = re.findall(r'<path d="([^"]+)" class="f-(\w+)"', panel.body)
    assert {kind: path for path, kind in areas} == {
        "none": "M0 214H166.7V174H333.3V134H500V94H1000V54H1000V214z",
        "bronze": "M0 214H166.7V174H333.3V134H1000V94H1000V214z",
        "silver": "M0 214H166.7V174H1000V134H1000V214z",
        "gold": "M0 214H166.7V174H1000V214z",
    }


def test_runs_without_any_medal_or_time_are_also_drawn() -> None:
    (panel,) = time_plot([run("error", hours=0)], agents=AGENTS).panels
    assert panel.description == "no medal in 0 s of agent time"


def test_rates_are_plotted_among_published_ones_with_error_bars() -> None:
    def published(name: str, mean: float, **more: Any) -> PublishedResult:
        rates = {"low": Rate(mean, 1.0), "all": Rate(mean, 1.0)}
        return PublishedResult(agent=name, llm="llm", date="2026-01-01", hours=24, rates=rates, **more)

    table = [published(f"p{mean}", mean) for mean in range(90, 10, -10)]
    table.append(published("peeked", 95, comparable=False, note="test-set feedback"))
    # Seeds with 100 % and 0 %: 50 ± 50.
    (panel,) = medal_rates(summed(run_low("gold", 0), run_low("no_medal", 1)), table, agents=AGENTS).panels
    own = "agent (1 competition only): 50.0 % ± 50.0"
    names = panel.description.split("; ")
    best = [f"p{mean} · llm: {mean}.0 % ± 1.0" for mean in (90, 80, 70, 60, 50)]
    assert names == ["† peeked · llm: 95.0 % ± 1.0", *best[:4], own, best[4]]
    whisker = re.search(r'x1="0%" y1="([\d.]+)" x2="100%" y2="\1" class="s-agent0" stroke-width="3"', panel.body)
    mark = re.search(r'<circle cx="50%" cy="([\d.]+)" r="5" class="f-agent0', panel.body)
    words = [float(y) for y in re.findall(r'y="([\d.]+)" class="(?:e )?f-ink b"', panel.body)]
    assert whisker and mark and whisker[1] == mark[1] and len(words) == 2
    assert all(abs(y - float(mark[1])) < 6 for y in words), "name, mark, whisker and number are not on one line"
    assert "† not comparable (test-set feedback)" in medal_rates(summed(run_low("gold", 0)), table, agents=AGENTS).more


def test_files_are_complete_accessible_svg(tmp_path: Path) -> None:
    make_group(tmp_path / "g", agents=["aide", "<b>&\x1b[1m\x07"], seeds=1)
    files = write_plots(overview([read_group(tmp_path / "g")]), tmp_path / "new/plots")
    assert [file.name for file in files] == ["outcomes.svg", "rates.svg", "scores.svg", "time.svg"]
    for file in files:
        tree = ElementTree.parse(file).getroot()
        assert tree.tag == f"{SVG}svg" and tree.get("role") == "img"
        labels = [tree.find(f".//*[@id='{id}']") for id in (tree.get("aria-labelledby") or "").split()]
        assert len(labels) == 2 and all(label is not None and label.text for label in labels)
        text = file.read_text()
        assert "href" not in text and "url(" not in text and "<script" not in text and "<image" not in text
        width, height = float(tree.get("width") or 0), float(tree.get("height") or 0)
        assert tree.get("viewBox") == f"0 0 {width:g} {height:g}" and width > 300 < height + 300


def test_plots_that_cannot_be_written_are_an_error(tmp_path: Path) -> None:
    make_group(tmp_path / "g", competitions=[SPACESHIP], seeds=1)
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=r"cannot be written to .*file: .*; name another folder"):
        write_plots(overview([read_group(tmp_path / "g")]), tmp_path / "file")


def test_a_file_follows_the_readers_light_or_dark_preference(tmp_path: Path, open_tab: Open) -> None:
    make_group(tmp_path / "g", competitions=[SPACESHIP], seeds=1)
    file = write_plots(overview([read_group(tmp_path / "g")]), tmp_path)[0]
    tab = open_tab(file.as_uri(), dark=True)
    ground = "getComputedStyle(document.querySelector('.f-paper')).fill"
    assert tab.see(ground) == "rgb(18, 22, 27)"
    tab.media(dark=True, print=True)
    assert tab.see(ground) == "rgb(255, 255, 255)"
    assert tab.errors == [] and len(tab.requests) == 1


def luminance(colour: str) -> float:
    """Relative luminance as defined by WCAG 2.2."""
    parts = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


READABLE = (
    *((text, ground) for text in ("ink", "muted", "link", "failure") for ground in ("paper", "card")),
    *((f"on-{name}", name) for name in ("gold", "silver", "bronze", "above", "none")),
)
"""Pairs of text and background colours."""


@pytest.mark.parametrize("mode", [0, 1], ids=["light", "dark"])
def test_text_and_marks_contrast_with_their_background(mode: int) -> None:
    assert contrast("#ffffff", "#000000") == pytest.approx(21)
    for text, ground in READABLE:
        assert contrast(COLOURS[text][mode], COLOURS[ground][mode]) >= 4.5, (text, ground)
    for name in COLOURS:
        if name.startswith("agent"):
            assert contrast(COLOURS[name][mode], COLOURS["paper"][mode]) >= 3, name
