"""The content of the viewer's pages and the requests it rejects, without a browser."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import re
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from html import escape, unescape
from pathlib import Path
from time import process_time
from typing import Any
from urllib.parse import quote

import pytest

from pytest_mlebench.catalog import default_catalogue
from pytest_mlebench.data.store import DataStore
from pytest_mlebench.extras.viewer import live
from pytest_mlebench.extras.viewer.app import application
from pytest_mlebench.extras.viewer.index import FILE, RunIndex
from pytest_mlebench.extras.viewer.pages import groups as group_pages
from pytest_mlebench.extras.viewer.pages.compare import aligned
from pytest_mlebench.extras.viewer.site import FILTERS
from pytest_mlebench.extras.viewer.steps import OutlineStep, timestamp
from pytest_mlebench.extras.viewer.text import code, coloured, markdown
from pytest_mlebench.io.values import write_json
from pytest_mlebench.llm.ledger import CALLS
from pytest_mlebench.records.group import GroupReader, RunGroup, grading_report, mark_running
from pytest_mlebench.records.outcome import Ending
from pytest_mlebench.records.record import GRADING_REPORT, RUN_LOG, RUNNING, RunKey
from pytest_mlebench.reports import page as report_page
from pytest_mlebench.reports.progress import progress
from pytest_mlebench.reports.run_details import TEXT
from pytest_mlebench.results import read_group
from pytest_mlebench.results.overview import Overview, overview
from tests.groups import make_group, record_with, save_group
from tests.viewer.conftest import EVIL, FORMULA, SMOKE, Ask, asker, write_trajectory

RUN = "/run/one/smoke-digits_agent-one-0"
SIDE = "/side?r=one/smoke-diabetes_agent-one-0&r=two/smoke-diabetes_agent-two-0"
PAGES = (
    "/",
    "/group/one",
    RUN,
    f"{RUN}/trajectory",
    f"{RUN}/log",
    f"{RUN}/files",
    f"{RUN}/record",
    f"{RUN}/step?number=100",
    "/runs",
    "/compare?g=one&g=two",
    SIDE,
    f"{SIDE}&full=1&by=time",
    "/competitions",
    "/competition/smoke-digits",
)
HOSTILE = "/run/hostile/smoke-breast-cancer_agent-0"
HOSTILE_TOO = "/run/hostile/smoke-breast-cancer_agent-1"
OF_HOSTILE = (
    "/",
    "/runs",
    "/runs?q=<script>",
    "/runs?group=hostile&agent=<script>",
    "/group/hostile",
    "/compare?g=hostile&g=one",
    f"/side?r={HOSTILE[5:]}&r={HOSTILE_TOO[5:]}",
    f"/side?r={HOSTILE[5:]}&r={HOSTILE_TOO[5:]}&full=1&by=time",
    "/competitions",
    "/competition/smoke-breast-cancer",
    HOSTILE,
    HOSTILE_TOO,
    *(f"{HOSTILE}/{tab}" for tab in ("trajectory", "trajectory?q=<script>", "step?number=2", "log", "log?at=0")),
    *(f"{HOSTILE}/{tab}" for tab in ("files", "record", "files/code/page.html", "files/submission/submission.csv")),
)
"""Pages with output of a hostile agent."""


@pytest.mark.parametrize("page", PAGES)
def test_each_page_exists_and_allows_only_our_scripts(page: str, ask: Ask) -> None:
    answer = ask(page)
    assert answer.status == 200, answer.text
    policy = answer.headers["content-security-policy"]
    nonces = set(re.findall(r'<script nonce="([^"]+)"', answer.text))
    assert policy.startswith("default-src 'none'") and nonces == set(re.findall(r"'nonce-([^']+)'", policy))
    assert "unsafe-eval" not in policy and "script-src 'unsafe" not in policy and "http" not in policy
    assert not re.findall(r'(?:src|href)="(?:https?:)?//', answer.text)
    assert ask(page).headers["content-security-policy"] != policy


def test_a_group_shows_its_runs_and_each_failure_links_to_its_moment(ask: Ask) -> None:
    text = ask("/group/one").text
    assert all(id in text for id in SMOKE) and "3 of 3 runs finished" in text and "$4.50" in text
    assert f'href="{RUN}/trajectory?from=error"' in text and f'href="{RUN}/log?at=error"' in text
    failed = ask(f"{RUN}/trajectory?from=error").text
    assert 'id="s-2000"' in failed and 'data-start="2000"' in failed and 'id="s-100"' not in failed


def test_a_page_of_a_long_trajectory_has_few_of_its_steps(ask: Ask) -> None:
    text = ask(f"{RUN}/trajectory?from=700").text
    assert 'id="s-700"' in text and text.count("<article") == 40 and text.count("data-to=") == 2000
    assert ask(f"{RUN}/steps?from=1990").text.count("<article") == 11
    found = ask(f"{RUN}/trajectory?q=--SEED+1234").text
    assert "from=1234" in found and "<b>1</b> steps contain" in found


def test_steps_can_be_filtered_by_kind_and_shown_as_recorded(ask: Ask) -> None:
    text = ask(f"{RUN}/trajectory?kind=error&from=500").text
    shown = [int(number) for number in re.findall(r'id="s-(\d+)"', text)]
    assert shown == list(range(100, 2001, 100)) and text.count("data-to=") == 20
    assert 'value="error" checked' in text and ">1,999</span>" in text  # tool calls
    after = ask(f"{RUN}/steps?kind=error&from=501").text
    assert re.findall(r'id="s-(\d+)"', after)[:2] == ["600", "700"]
    before = ask(f"{RUN}/steps?kind=error&kind=user&before=201").text
    assert re.findall(r'id="s-(\d+)"', before) == ["1", "100", "200"]
    values = json.loads(ask(f"{RUN}/step.json?number=100").text)
    assert values["step_id"] == 100 and values["tool_calls"][0]["function_name"] == "bash"
    page = ask(f"{RUN}/step?number=100").text
    assert "tool_call_id" in page and f'href="{RUN}/trajectory?from=100#s-100"' in page
    assert "<html" not in ask(f"{RUN}/step?number=100&part=1").text
    assert ask("/run/two/smoke-digits_agent-two-0/step?number=1").status == 404


def test_runs_of_all_groups_are_listed_filtered_sorted_and_saved(ask: Ask) -> None:
    def shown(query: str) -> list[str]:
        return re.findall(
            r'<th scope="row" data-label="Competition"><a href="/run/([^"]+)"', ask(f"/runs?{query}").text
        )

    assert len(shown("")) >= 7
    assert len(shown("group=one")) == 3 and len(shown("group=one&outcome=medal")) == 2
    assert shown("outcome=failure&q=AGENT-ONE") == ["one/smoke-digits_agent-one-0"]
    assert shown("q=_gent") == [] == shown("q=%25zzz") and len(shown("q=agent+two")) == 3
    costs = shown("order=-cost&group=one")
    assert costs and shown("order=outcome&group=one&group=two")[0].startswith("one/")
    assert len(shown("order=nonsense&start=x")) >= 7 and shown("start=7000") == []
    rows = list(csv.DictReader(io.StringIO(ask("/runs.csv?group=one").text)))
    assert len(rows) == 3 and {row["outcome"] for row in rows} == {"gold", "bronze", "crashed"}
    for page, link in (
        ("/", "/runs?group=one&amp;outcome=medal"),
        ("/group/one", "/runs?group=one"),
        ("/competitions", "/runs?competition=smoke-digits"),
    ):
        assert f'href="{link}"' in ask(page).text and len(shown(link.partition("?")[2].replace("&amp;", "&"))) > 0


def test_medals_are_shown_as_firm_or_not(tmp_path: Path) -> None:
    competition = default_catalogue()[SMOKE[0]]
    gold = record_with(competition, "gold", agent="a")
    firm = replace(gold, report=replace(gold.report, firm=True, score_low=0.97, score_high=0.99))
    other = record_with(competition, "gold", agent="a", seed=1)
    loose = replace(other, report=replace(other.report, firm=False, score_low=0.5, score_high=0.99))
    save_group(tmp_path / "g", [firm, loose])
    index = RunIndex(tmp_path)
    index.refresh(thorough=True)
    ask = asker(application(index, address="127.0.0.1"))
    for page in ("/group/g", "/runs", f"/competition/{SMOKE[0]}"):
        text = ask(page).text
        assert text.count('class="medal gold loose"') == text.count("> not firm<") == 1, page
        assert text.count("A dashed outline marks a medal that is not firm") == 1, page
    assert "0.50000 to 0.99000" in ask("/runs").text
    own = ask(f"/run/g/{loose.run_id}").text
    assert "The gold medal is <b>not firm</b>" in own and "0.50000 to 0.99000" in own
    index.close()


@pytest.fixture
def asked_of(tmp_path: Path) -> Iterator[Callable[[], Ask]]:
    """Calls the application for the run groups that a test created in its folder."""
    with ExitStack() as opened:

        def ready() -> Ask:
            index = RunIndex(tmp_path)
            opened.callback(index.close)
            index.refresh(thorough=True)
            return asker(application(index, address="127.0.0.1"))

        yield ready


@pytest.mark.parametrize(
    ("ending", "sentence"),
    [
        (Ending.FINISHED, "The run finished after 1 min."),
        (Ending.TIMED_OUT, "The run timed out after 1 min."),
        (Ending.OUT_OF_MEMORY, "The run ran out of memory after 1 min."),
        (Ending.CRASHED, "The run crashed after 1 min."),
        (Ending.BUDGET_ENDED, "The run ran out of budget after 1 min."),
        (Ending.NOT_STARTED, "The agent was not started."),
    ],
)
def test_the_failure_of_a_run_is_described_in_a_sentence(
    ending: Ending, sentence: str, tmp_path: Path, asked_of: Callable[[], Ask]
) -> None:
    record = replace(record_with(default_catalogue()[SMOKE[0]], "no_submission", agent="a"), ending=ending)
    save_group(tmp_path / "g", [record])
    assert sentence in asked_of()(f"/run/g/{record.run_id}").text


def test_a_run_without_a_record_shows_its_key_and_its_remaining_time(
    tmp_path: Path, asked_of: Callable[[], Ask]
) -> None:
    key = RunKey("an-agent", SMOKE[0], 2)
    run_dir = tmp_path / "g/run"
    run_dir.mkdir(parents=True)
    (tmp_path / "g/manifest.json").write_text(json.dumps({"run_group": "g", "runs": [key._asdict()]}))
    with mark_running(run_dir, key, worker="gw0", time_limit=86400.0):
        ask = asked_of()
        page = ask("/run/g/run").text
        assert f">{SMOKE[0]}</a></h1>" in page and "running</span> an-agent · seed 2" in page
        assert re.search(r'data-left="[\d.]+">(23:59:\d\d|24:00:00)</span> left', page)
        assert "No trajectory yet" in ask("/run/g/run/trajectory").text
        running = json.loads((run_dir / RUNNING).read_text())
        (run_dir / RUNNING).write_text(json.dumps(running | {"owner": {}}))
        os.utime(run_dir / RUNNING, (0, 0))
        assert "interrupted</b> an-agent · seed 2" in ask("/run/g/run").text


def test_an_interrupted_run_is_listed_once_and_not_after_it_was_resumed(
    tmp_path: Path, asked_of: Callable[[], Ask]
) -> None:
    record = record_with(default_catalogue()[SMOKE[0]], "gold")
    group = tmp_path / "g"
    for name in ("first", "second"):
        (group / name).mkdir(parents=True)
        with suppress(KeyboardInterrupt), mark_running(group / name, record.key, worker="", time_limit=60.0):
            raise KeyboardInterrupt
        about = json.loads((group / name / RUNNING).read_text())
        (group / name / RUNNING).write_text(json.dumps(about | {"owner": {}}))
        os.utime(group / name / RUNNING, (0, 0))
    (group / "manifest.json").write_text(
        json.dumps({"run_group": "g", "runs": [record.key._asdict() | {"nodeid": ""}]})
    )

    def shown() -> tuple[bool, bool, bool]:
        watched = progress(GroupReader(group))
        return (
            "1 interrupted" in asked_of()("/").text,
            "1 run interrupted" in ask("/group/g").text,
            "1 interr" in watched,
        )

    ask = asked_of()
    assert shown() == (True, True, True)
    assert "/run/g/second" in ask("/group/g").text and "/run/g/first" not in ask("/group/g").text
    assert "it was interrupted" in ask("/run/g/first").text and "data-clock" not in ask("/run/g/first").text
    (group / "third").mkdir()
    with mark_running(group / "third", record.key, worker="", time_limit=60.0):
        assert shown() == (False, False, False) and "1 running" in progress(GroupReader(group))
    assert shown() == (True, True, True)
    save_group(group, [record])
    assert shown() == (False, False, False)


def test_groups_without_a_common_competition_are_compared_in_a_sentence(
    tmp_path: Path, asked_of: Callable[[], Ask]
) -> None:
    for name, id in zip("ab", SMOKE, strict=False):
        save_group(tmp_path / name, [record_with(default_catalogue()[id], "gold", agent=name)])
    assert "<p>No competition has runs of all these agents.</p>" in asked_of()("/compare?g=a&g=b").text


def test_a_time_without_a_zone_is_ignored() -> None:
    assert timestamp("2026-03-01T12:00:05") is None
    assert timestamp("2026-03-01T12:00:05+00:00") == 1772366405


@pytest.mark.parametrize("others", [5, "text", {"steps": []}, [3, {"steps": 4}]])
def test_a_trajectory_whose_parts_are_of_other_types_is_shown(
    others: object, tmp_path: Path, asked_of: Callable[[], Ask]
) -> None:
    record = record_with(default_catalogue()[SMOKE[0]], "gold", agent="a")
    save_group(tmp_path / "g", [record])
    step = {"source": 1, "message": "hello", "tool_calls": 3, "observation": [], "metrics": "x", "timestamp": 5}
    values = {"agent": [], "steps": [step, 7], "subagent_trajectories": others}
    (tmp_path / "g" / record.run_id / "trajectory.json").write_text(json.dumps(values))
    answer = asked_of()(f"/run/g/{record.run_id}/trajectory")
    assert answer.status == 200 and "hello" in answer.text


def test_missing_pages_are_explained_in_a_sentence(ask: Ask) -> None:
    for page, said in (
        ("/nowhere", "There is no such page."),
        ("/group/none", "There is no run group none."),
        ("/competition/none", "There is no competition none."),
    ):
        answer = ask(page)
        assert (answer.status, f"<p>{said}</p>" in answer.text) == (404, True), page
        assert "<h1>Not found</h1>" in answer.text and "Export this view" not in answer.text, page


def test_audit_findings_link_to_their_evidence(ask: Ask) -> None:
    assert f'href="{HOSTILE}#audit">violation</a>' in ask("/group/hostile").text
    text = ask(HOSTILE).text
    assert f'href="{HOSTILE}/trajectory?at=12"' in text and "<b>violation</b>" in text
    assert "not audited" not in text and "Audit" not in ask("/group/one").text


def test_unknown_costs_are_not_shown_as_free(tmp_path: Path, asked_of: Callable[[], Ask]) -> None:
    records = [record_with(default_catalogue()[SMOKE[0]], "gold", seed=seed) for seed in range(2)]
    without = replace(records[0], llm={"calls": 3, "cost": None, "tokens": {}})
    save_group(tmp_path / "g", [without])
    run_dir = tmp_path / "g" / "toy_1"
    ledger = run_dir / CALLS
    ledger.parent.mkdir(parents=True)
    call = {"started_at": "2026-03-01T12:00:00+00:00", "status": 200, "cost": None}
    ledger.write_text(f"{json.dumps(call)}\n" * 2)
    ask = asked_of()
    with mark_running(run_dir, RunKey("a", "toy", 3), worker="gw0", time_limit=86400.0):
        assert "<span>2 calls, cost unknown</span>" in ask("/group/g").text
        assert "<span>2 calls, cost unknown</span>" in ask("/run/g/toy_1").text
        with ledger.open("a") as file:
            file.write(f"{json.dumps(call | {'cost': 0.5})}\n{json.dumps(call | {'status': 500})}\n")
        assert "<span>4 calls, cost ≥ $0.50</span>" in ask("/group/g").text
    assert "$0" not in ask("/").text and 'order=-cost">unknown</a>' in ask("/").text
    assert re.search(r'<td [^>]*data-label="Cost"[^>]*>unknown</td>', ask("/runs").text)
    with_cost = replace(records[1], llm={"calls": 3, "cost": 2.5, "tokens": {}})
    save_group(tmp_path / "h", [without, with_cost])
    shown = ask("/").text
    assert shown.count(">≥ $2.50</a>") == 2 and shown.count(">unknown</a>") == 1


def test_a_competition_ranks_all_groups_runs_on_the_leaderboard(ask: Ask) -> None:
    text = ask("/competition/smoke-breast-cancer").text
    assert text.index(">agent-one<") < text.index(">agent-two<") and "≈ " in text and 'id="leaderboard-title"' in text
    ranks = re.findall(r'<td data-label="Would-be rank" class="number" data-v="(\d+)">≈ ([\d,]+)</td>', text)
    assert ranks and all(sorted_by == shown.replace(",", "") for sorted_by, shown in ranks), (
        "as a number, not as a string"
    )


def test_a_competition_shows_the_first_rows_of_its_public_tables(runs_dir: Path, tmp_path: Path) -> None:
    index = RunIndex(runs_dir)
    index.refresh()
    dataset = (store := DataStore(tmp_path)).dataset(default_catalogue()[SMOKE[2]])
    ask = asker(application(index, address="127.0.0.1", store=store))
    assert 'id="data-title"' not in ask(f"/competition/{SMOKE[2]}").text
    dataset.public.mkdir(parents=True)
    dataset.private.mkdir()
    (dataset.private / "test.csv").write_text("id,label\n1,an answer\n")
    (dataset.public / "train.csv").write_text("id,text\n" + "".join(f"row {k},{EVIL}\n" for k in range(10)))
    (dataset.public / "more.TSV").write_text("id\ttext\n1\ta,b\n")
    (dataset.public / "linked.csv").symlink_to(dataset.private / "test.csv")
    (dataset.public / "folder.csv").mkdir()
    os.mkfifo(dataset.public / "pipe.csv")
    (dataset.public / "\udcff.csv").write_text("id\n")
    (dataset.public / "large.csv").write_text("id," + "x" * (1 << 20))
    shown = section(ask(f"/competition/{SMOKE[2]}").text, "data")
    words = ["large.csv", "1 MiB", "more.TSV", "train.csv", "row 4"]
    assert all(word in shown for word in words) and "row 5" not in shown
    page = ask(f"/competition/{SMOKE[2]}").text
    assert "<td>a,b</td>" in page and "an answer" not in page and "<script>window" not in page
    assert not any(name in page for name in ("linked", "folder.csv", "pipe.csv")) and len(page) < 100_000
    dataset.public.rename(tmp_path / "elsewhere")
    dataset.public.symlink_to(dataset.private)
    assert 'id="data-title"' not in ask(f"/competition/{SMOKE[2]}").text
    index.close()


def test_a_comparison_counts_wins_on_the_competitions_of_both(ask: Ask) -> None:
    text = ask("/compare?g=one&g=two").text
    counts = dict(re.findall(r'<a href="(/runs[^"]*competition[^"]*)">([^<]+)</a>', text))
    links = {words: unescape(address) for address, words in counts.items()}
    assert (
        "<b>agent-one</b> has the best mean score on <a" in text
        and "<b>agent-two</b> has the best mean score on <a" in text
    )
    assert set(links) == {"3 competitions", "1", "1 tie"}
    behind = {
        words: re.findall(r'data-label="Competition"><a href="/run/([^"]+)"', ask(link).text)
        for words, link in links.items()
    }
    assert [len(behind[words]) for words in ("3 competitions", "1", "1 tie")] == [6, 2, 2]
    assert ask("/compare?g=one").status == 400


def test_two_agents_of_one_group_have_separate_columns(tmp_path: Path, asked_of: Callable[[], Ask]) -> None:
    records = [
        record_with(default_catalogue()[id], outcome, agent=agent, seed=seed)
        for agent, outcome in (("good", "gold"), ("poor", "no_medal"))
        for id in SMOKE
        for seed in range(2)
    ]
    save_group(tmp_path / "pair", records)
    ask = asked_of()
    assert 'href="/compare?g=pair">Compare agents</a>' in ask("/group/pair").text
    text = ask("/compare?g=pair").text
    assert re.findall(r'<th scope="col">(good|poor)</th>', text) == ["good", "poor"]
    assert "<b>good</b> has the best mean score on <a" in text and "<b>poor</b> has the best mean score on 0" in text
    cells = re.findall(r'<td data-label="(good|poor)"(.*?)</td>', text, re.DOTALL)
    assert len(cells) == 2 * len(SMOKE)
    for agent, cell in cells:
        assert cell.count(f'title="{agent}, seed') == cell.count('class="cell"') == 2, "runs of this agent only"


def test_numbers_of_a_comparison_link_to_their_runs(ask: Ask) -> None:
    text = ask("/compare?g=one&g=two").text
    assert text.count('class="legend"') == 1, "plots have one legend"
    assert text.count('class="plain-link" href="/runs?group=') > 8
    for address, words in re.findall(r'class="plain-link" href="(/runs\?group=[^"]*outcome=[^"]*)">(\d+) \w', text):
        assert f"<b>{words}</b> {'run' if words == '1' else 'runs'}" in ask(unescape(address)).text, address


def test_trajectories_on_a_competition_are_shown_side_by_side(ask: Ask) -> None:
    assert f'href="{escape(quote(SIDE, safe="?=&/"))}"' in ask("/compare?g=one&g=two").text.replace("%2F", "/")
    text = ask(SIDE).text
    rows = re.findall(r"<tr><td.*?</tr>", text, re.DOTALL)
    assert len(rows) == 24 and "Rows 1 to 24 of 24" in text
    ends = [re.findall(r'href="/run/(one|two)/[^"]*from=(\d+)#', row) for row in (rows[11], rows[23])]
    assert ends == [[("one", "12"), ("two", "12")], [("one", "24")]]
    full = ask(f"{SIDE}&full=1").text
    assert "Rows 1 to 20 of 24" in full and full.count('<div class="block result">') == 30
    three = ask(f"{SIDE}&r=one/smoke-digits_agent-one-0&start=200").text
    assert "Rows 201 to 400 of 2,000" in three and "Earlier" in three and "Later" in three
    assert ask(SIDE.partition("&")[0]).status == 400


def test_simultaneous_steps_are_in_the_same_row() -> None:
    def step(number: int, seconds: float | None) -> OutlineStep:
        return OutlineStep(number, "agent", "", "", seconds, 0, 0, None, False, False, "", "", frozenset())

    one = [step(1, None), step(2, 10.0), step(3, 300.0)]
    two = [step(1, 30.0), step(2, 310.0), step(3, 600.0)]
    rows = [tuple(own and own.number for own in row) for row in aligned([one, two], by_time=True)]
    assert rows == [(1, None), (2, 1), (3, 2), (None, 3)]
    assert [len(row) for row in aligned([one, two[:1], []], by_time=False)] == [3, 3, 3]
    assert aligned([[], []], by_time=True) == []


def test_an_export_is_one_file_without_scripts_links_or_requests(ask: Ask) -> None:
    for page in (f"{RUN}?", f"{RUN}/trajectory?", "/compare?g=one&g=two&"):
        answer = ask(f"{page}export=1")
        assert answer.headers["content-disposition"].startswith("attachment")
        assert "<style>" in answer.text and "<script" not in answer.text
        assert not re.findall(r'(?:src|href|action)="/', answer.text) and "<link" not in answer.text
    assert '<meta name="generator"' in ask("/group/one?export=1").text


STEPS = ("trajectory", "trajectory?kind=tool", "step?number=2", "step?number=2&part=1")
TABS = (*STEPS, "log", "log?at=0", "log?errors=1", "files", "files/code/page.html", "record")
LISTS = ("/runs", "/runs?group=hostile", "/group/hostile")


@pytest.mark.parametrize("page", [*LISTS, HOSTILE, *(f"{HOSTILE}/{tab}" for tab in TABS)])
def test_agent_output_is_text(page: str, ask: Ask) -> None:
    answer = ask(page)
    assert answer.status == 200
    assert "<script>" not in answer.text and "<img" not in answer.text and "\x1b" not in answer.text
    assert len(answer.body) < 500_000
    if not page.endswith("/log"):  # the log starts at its end
        assert "window.owned" in answer.text


def test_files_are_only_downloaded_and_links_and_outside_files_are_rejected(ask: Ask, runs_dir: Path) -> None:
    answer = ask(f"{HOSTILE}/raw/code/evil.js")
    assert (answer.status, answer.body) == (200, b"window.owned = 4")
    assert (
        answer.headers["content-type"].startswith("text/plain")
        and "sandbox" in answer.headers["content-security-policy"]
    )
    assert answer.headers["content-disposition"].startswith("attachment")
    assert answer.headers["x-content-type-options"] == "nosniff"
    for path in (
        "code/link",
        "code/folder/passwd",
        "code/pipe",
        "../../one/manifest.json",
        "%2e%2e/x",
        "/etc/passwd",
        "code",
    ):
        for view in ("raw", "files"):
            refused = ask(f"{HOSTILE}/{view}/{path}")
            assert refused.status == 404 and b"root:" not in refused.body, path
    for page in ("/group/linked", "/group/..", "/run/one/..", "/run/../one", "/group/linked/events"):
        assert ask(page).status == 404
    files = ask(f"{HOSTILE}/files").text
    assert "a link, not shown" in files and "not a regular file, not shown" in files


def test_a_large_file_is_served_by_range(ask: Ask) -> None:
    whole = ask(f"{HOSTILE}/raw/run.log").body
    answer = ask(f"{HOSTILE}/raw/run.log", range="bytes=100-199")
    assert (answer.status, answer.body) == (206, whole[100:200])
    assert answer.headers["content-range"] == f"bytes 100-199/{len(whole)}"
    assert ask(f"{HOSTILE}/raw/run.log", range="bytes=-10").body == whole[-10:]
    assert ask(f"{HOSTILE}/raw/run.log", range=f"bytes={len(whole)}-").status == 416
    head = ask(f"{HOSTILE}/raw/run.log", method="HEAD")
    assert (head.body, head.headers["content-length"]) == (b"", str(len(whole)))


def test_parts_of_a_log_have_no_gaps(ask: Ask) -> None:
    log, place, seen = ask(f"{HOSTILE}/raw/run.log").body, 0, 0
    while place < len(log):
        part = ask(f"{HOSTILE}/log/part?start={place}").text
        start, end = map(int, re.findall(r'data-(?:start|end)="(\d+)"', part))
        assert start == place and end > start
        place, seen = end, seen + 1
    assert seen > 10


def test_the_last_error_of_a_long_log_is_its_last(tmp_path: Path, asked_of: Callable[[], Ask]) -> None:
    record = record_with(default_catalogue()[SMOKE[0]], "gold")
    save_group(tmp_path / "g", [record])
    lines = [f"Error:{number} {'x' * 5000}\n" for number in range(500)]
    end = f"{'x' * (3 << 20)} fatal"
    (tmp_path / "g" / record.run_id / RUN_LOG).write_text("".join(lines) + "good\n" * 400_000 + end)

    def hits(query: str) -> list[str]:
        (found,) = re.findall(r"<ol>(.*?)</ol>", ask(f"/run/g/{record.run_id}/log?{query}").text, re.DOTALL)
        return [unescape(re.sub(r"<[^>]+>", "", line)).split(" x")[0] for line in found.split("</li>")[:-1]]

    ask = asked_of()
    assert hits("errors=1") == [f"Error:{number}" for number in range(300)]
    assert hits("at=error")[:-1] == [f"Error:{number}" for number in range(201, 500)]
    assert hits("at=error")[-1].endswith("fatal")
    answer = ask(f"/run/g/{record.run_id}/log?at=error").text
    assert "300 (the last)</b>" in answer and "and more" in answer
    (place,) = re.findall(r'data-at="(\d+)"', answer)
    assert int(place) > sum(map(len, lines))


def test_only_read_requests_that_name_this_machine_are_answered(ask: Ask) -> None:
    for host in ("evil.example", "127.0.0.1.evil.example:7575", "192.168.0.1", "", "localhost@evil.example"):
        assert ask("/", host=host).status == 421
    for host in ("localhost", "127.0.0.1:1", "[::1]:7575", "LOCALHOST:80"):
        assert ask("/", host=host).status == 200
    for method in ("POST", "PUT", "DELETE", "OPTIONS", "PATCH"):
        assert ask("/", method=method).status == 405
    assert ask("/group/one", sec_fetch_site="cross-site", sec_fetch_mode="no-cors").status == 403
    assert ask("/group/one", sec_fetch_site="cross-site", sec_fetch_mode="navigate").status == 200


def test_on_another_address_nothing_is_shown_without_the_token(runs_dir: Path) -> None:
    index = RunIndex(runs_dir)
    remote = asker(application(index, address="0.0.0.0", token="secret"))
    assert remote("/group/one", host="192.168.0.7:7575").status == 403
    assert remote("/group/one?token=wrong", host="192.168.0.7").status == 403
    assert remote("/group/one", host="rebound.example", cookie="mlebench-view=secret").status == 421
    entered = remote("/group/one?token=secret&export=1", host="192.168.0.7:7575")
    assert (entered.status, entered.headers["location"]) == (303, "/group/one?export=1")
    cookie = entered.headers["set-cookie"]
    assert "HttpOnly" in cookie and "samesite=strict" in cookie.lower()
    assert remote("/group/one", host="192.168.0.7", cookie=cookie.partition(";")[0]).status == 200
    assert remote("//evil.example?token=secret", host="192.168.0.7").headers["location"] == "/evil.example"
    index.close()


def test_the_index_follows_the_files_and_is_rebuilt_if_damaged(tmp_path: Path) -> None:
    competitions = [default_catalogue()[id] for id in SMOKE]
    make_group(tmp_path / "a", competitions=competitions, seeds=2)
    index = RunIndex(tmp_path)
    index.refresh(thorough=True)
    before = index.groups()
    assert [(group.name, group.finished) for group in before] == [("a", 6)]
    index.close()

    path = tmp_path / FILE
    for damage in (b"no database", path.read_bytes()[:5000] + b"\xff" * 3000, b""):
        path.write_bytes(damage)
        index = RunIndex(tmp_path)
        index.refresh(thorough=True)
        assert index.groups() == before
        index.close()

    index = RunIndex(tmp_path)
    assert index.groups() == before  # without rereading the groups
    gone = next(path for path in (tmp_path / "a").iterdir() if path.is_dir())
    (gone / "run.json").unlink()
    (next(path for path in (tmp_path / "a").iterdir() if path.is_dir() and path != gone) / "run.json").write_text("{")
    index.refresh(thorough=True)
    (group,) = index.groups()
    assert group.finished == 4 and len(group.broken) == 1
    sqlite3.connect(path).execute("pragma user_version = 99").connection.close()
    index.close()
    index = RunIndex(tmp_path)
    assert index.groups() == []
    index.close()
    path.unlink()
    path.symlink_to(tmp_path / "elsewhere")
    index = RunIndex(tmp_path)
    assert not index.is_kept and not (tmp_path / "elsewhere").exists()
    index.close()


@pytest.mark.parametrize(
    "values",
    [
        {"seed": 1 << 70},
        {"seconds": math.nan},
        {"seconds": math.inf},
        {"ended_at": "yesterday"},
        {"run_id": "another"},
        {"timeline": [{"seconds": math.inf}]},
        {"timeline": [{"seconds": 1.0, "cost": math.nan}]},
        {"llm": {"calls": 1, "cost": math.inf}},
        {"llm": {"calls": 1, "models": {"m": {"calls": 1 << 70}}}},
    ],
    ids=str,
)
def test_a_record_with_impossible_values_is_listed_as_broken_and_hides_no_other(
    values: dict[str, Any], tmp_path: Path, asked_of: Callable[[], Ask]
) -> None:
    bad, good = (record_with(default_catalogue()[id], "gold", agent="a") for id in SMOKE[:2])
    save_group(tmp_path / "g", [bad, good], planned=[good.key])
    changed(tmp_path / "g" / bad.run_id, values)
    ask = asked_of()
    pages = {page: ask(page) for page in ("/", "/runs", "/competitions", "/group/g", f"/run/g/{good.run_id}")}
    assert {answer.status for answer in pages.values()} == {200}
    assert good.run_id in pages["/runs"].text and f"/run/g/{bad.run_id}" not in pages["/runs"].text
    assert f"{bad.run_id}/run.json is not a run record" in pages["/group/g"].text
    assert ask(f"/run/g/{bad.run_id}").status == 400


def test_texts_that_are_not_unicode_are_shown(tmp_path: Path, asked_of: Callable[[], Ask]) -> None:
    record = record_with(default_catalogue()[SMOKE[0]], "gold", agent="a")
    save_group(tmp_path / "g", [record], planned=[RunKey("b\ud800", record.competition_id, 0)])
    models = {"m\ud800": {"provider": "\ud800", "calls": 1}}
    texts = dict.fromkeys(("agent", "split", "category", "error", "detail"), "text \ud800")
    changed(tmp_path / "g" / record.run_id, {**texts, "llm": {"calls": 1, "models": models}})
    ask = asked_of()
    for page in ("/", "/runs", "/competitions", "/group/g", "/compare?g=g", f"/run/g/{record.run_id}"):
        assert ask(page).status == 200, page


def test_files_from_the_far_future_are_shown(tmp_path: Path, asked_of: Callable[[], Ask]) -> None:
    record = record_with(default_catalogue()[SMOKE[0]], "gold", agent="a")
    save_group(tmp_path / "g", [record], planned=[record.key])
    for path in (tmp_path / "g" / record.run_id / "run.json", tmp_path / "g/manifest.json"):
        os.utime(path, (10**12, 10**12))
    ask = asked_of()
    for page in ("/", "/runs", "/group/g", f"/run/g/{record.run_id}"):
        assert ask(page).status == 200, page


def changed(run_dir: Path, values: dict[str, Any]) -> None:
    file = run_dir / "run.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | values))


@pytest.mark.parametrize("name", ["duration", "clock", "when"])
def test_an_infinite_time_is_shown_as_a_word(name: str) -> None:
    assert FILTERS[name](math.inf) == "inf"


def test_all_calls_of_a_long_ledger_are_counted(tmp_path: Path) -> None:
    ledger = tmp_path / "run" / CALLS
    ledger.parent.mkdir(parents=True)

    def line(number: int, **more: Any) -> str:
        started = f"2026-03-01T12:00:{number % 60:02}+00:00"
        return json.dumps({"started_at": started, "cost": 0.25, "tokens": {"input": 5}, "status": 200} | more) + "\n"

    impossible = line(1, cost=math.inf, tokens={"input": math.inf})
    ledger.write_text("".join(map(line, range(100))) + impossible + "{}\n[]\n{")
    calls = live.Calls(block=5000, max_marks=70)
    for _ in range(2):
        found = calls.of(tmp_path, "run")
        assert (found.count, found.cost, found.cost_is_complete, len(found.marks)) == (101, 25.0, False, 70)
    with ledger.open("a") as file:
        file.write("}\n" + line(2, status=500))
    assert (calls.of(tmp_path, "run").count, calls.of(tmp_path, "run").cost) == (102, 25.25)
    ledger.write_text(line(3, status=500))
    (mark,) = calls.of(tmp_path, "run").marks
    assert mark.failed and mark.tokens == 5
    ledger.unlink()
    assert calls.of(tmp_path, "run").count == 0


def test_files_whose_names_are_not_utf_8_are_listed_without_a_link(tmp_path: Path, asked_of: Callable[[], Ask]) -> None:
    record = record_with(default_catalogue()[SMOKE[0]], "gold", agent="a")
    save_group(tmp_path / "g", [record])
    code = tmp_path / "g" / record.run_id / "code"
    for name in ("\udcff.py", "folder\udcff/a.py", "good.py"):
        (code / name).parent.mkdir(parents=True, exist_ok=True)
        (code / name).write_text("x = 1")
    answer = asked_of()(f"/run/g/{record.run_id}/files")
    assert answer.status == 200 and answer.text.count("its name is not UTF-8, not shown") == 2
    assert f'href="/run/g/{record.run_id}/files/code/good.py"' in answer.text


def test_a_groups_page_follows_changed_and_removed_records_and_a_new_group_of_its_name(
    tmp_path: Path, asked_of: Callable[[], Ask]
) -> None:
    competition, folder = default_catalogue()[SMOKE[0]], tmp_path / "g"

    def shown() -> dict[str, str]:
        return dict(re.findall(r'<tr id="run-([^"]+)" data-outcome="(\w+)"', ask("/group/g").text))

    first, second = save_group(folder, [record_with(competition, "gold", agent="a", seed=seed) for seed in range(2)])
    ask = asked_of()
    assert shown() == {first.run_id: "gold", second.run_id: "gold"}
    replace(record_with(competition, "silver", agent="a"), run_group="g").write(folder / first.run_id)
    assert shown() == {first.run_id: "silver", second.run_id: "gold"}
    shutil.rmtree(folder / second.run_id)
    assert shown() == {first.run_id: "silver"}
    shutil.rmtree(folder)
    (third,) = save_group(folder, [record_with(competition, "gold", agent="b")])
    assert shown() == {third.run_id: "gold"}


def test_the_page_of_a_group_without_records_follows_its_grading_report(
    tmp_path: Path, asked_of: Callable[[], Ask]
) -> None:
    ask = asked_of()
    (tmp_path / "g").mkdir()
    for outcome in ("gold", "silver"):
        report = record_with(default_catalogue()[SMOKE[0]], outcome).report
        write_json(tmp_path / "g" / GRADING_REPORT, grading_report([report]))
        assert f'data-outcome="{outcome}"' in ask("/group/g").text


def test_a_group_with_only_a_grading_report_is_listed_and_compared(tmp_path: Path, asked_of: Callable[[], Ask]) -> None:
    records = [record_with(default_catalogue()[id], "gold", agent="a") for id in SMOKE[:2]]
    save_group(tmp_path / "g", records)
    for name in ("graded", "broken"):
        (tmp_path / name).mkdir()
    reports = [record.report for record in records]
    write_json(tmp_path / "graded" / GRADING_REPORT, grading_report([*reports, reports[0]]))
    (tmp_path / "broken" / GRADING_REPORT).write_text("{}")
    ask = asked_of()
    listed = " ".join(re.sub(r"<[^>]+>", " ", ask("/").text).split())
    assert "grading_report.json is not a grading report: it lacks competition_reports – 0 of 0" in listed
    assert re.search(r" graded graded smoke 3 of 3 100 % 3 – – ", listed)
    compared = ask("/compare?g=g&g=graded").text
    assert "no run" not in compared and "/side?" not in compared
    links = set(re.findall(r'href="(/run/graded/[^"]+)"', compared))
    assert len(links) == 3 and {ask(link).headers["location"] for link in links} == {"/group/graded"}
    assert "/run/graded" not in ask("/group/graded").text
    own = ask(f"/run/g/{records[0].run_id}").text
    assert "/run/graded/" in own and "/side?" not in own
    assert "no files of its runs" in ask(f"{links.pop()}/log").text
    save_group(tmp_path / "graded", records[:1])
    assert asked_of()("/").text.count(">1 of 1<") == 1, "records count rather than the grading report"


def test_terminal_sequences_become_classes_and_nothing_else() -> None:
    assert coloured("\x1b[1;31mred\x1b[0m \x1b]8;;http://evil\x07link\x1b[2K\x07") == (
        '<span class="t-bold t-red">red</span> link\ufffd'
    )
    assert coloured("10 %\r100 %\r\n") == "100 %"
    assert "1,044,576 more" in coloured("A" * (1 << 20))
    assert coloured("\x1b[38;5;196;1mx\x1b[9999999999m y") == "x y"
    assert "<script" not in code(EVIL) and "<script" not in coloured(EVIL)


def test_no_cell_of_a_csv_is_a_formula(ask: Ask) -> None:
    rows = list(csv.reader(io.StringIO(ask("/runs.csv").text)))
    cells = [cell for row in rows[1:] for cell in row]
    assert any(FORMULA in cell for cell in cells)
    assert [cell for cell in cells if cell.lstrip()[:1] in set("=+@") or re.match(r"\s*-(?![\d.])", cell)] == []


BAD = ("", "-1", "1e999", "nan", "9" * 40, "%00", "%FF%FE", "../..", "<script>", "%D9%A3", "1.5", "%", "a" * 5000)
PARAMETERS = (
    "q order start from before at conversation number kind part g r by full errors end outcome group firm".split()
)


@pytest.mark.full
def test_no_request_causes_a_server_error(ask: Ask) -> None:
    short = RUN.replace("digits", "diabetes")
    pages = [page.replace(RUN, short).partition("?")[0] for page in PAGES]
    pages += [f"{short}/{name}" for name in ("steps", "step", "step.json", "log/part", "raw/run.log", "files/run.log")]
    pages += ["/runs.csv", "/-/app.js", "/-/x.js", "/nowhere"]
    for page in dict.fromkeys(pages):
        for value in BAD:
            assert ask(f"{page}?{'&'.join(f'{name}={value}' for name in PARAMETERS)}").status < 500, (page, value)
        for number, name in enumerate(PARAMETERS):
            for value in (BAD[number % len(BAD)], BAD[(number + 5) % len(BAD)]):
                assert ask(f"{page}?{name}={value}&export={number % 2}").status < 500, (page, name, value)
    for part in (*BAD, ".", "..", "%2F", "one%2F..", "%0A", "x" * 300):
        for page in (
            f"/group/{part}",
            f"/competition/{part}",
            f"/run/one/{part}",
            f"/run/{part}/x/log",
            f"{short}/{part}",
        ):
            assert ask(page).status < 500, page
        for page in (
            f"{short}/files/{part}",
            f"{short}/raw/{part}",
            f"/compare?g=one&g={part}",
        ):
            assert ask(page).status < 500, page
        assert ask(f"/side?r={short[5:]}&r={part}").status < 500, part


def section(text: str, id: str) -> str:
    """The words of a section of a page."""
    found = re.search(rf'<section id="{id}".*?</section>', text, re.DOTALL)
    assert found, id
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", found[0])).split())


def test_the_report_is_the_groups_page_as_a_file(ask: Ask, runs_dir: Path) -> None:
    shown, exported = (ask(f"/group/one{query}").text for query in ("", "?export=1"))
    report = report_page.page(overview([read_group(runs_dir / "one")]))
    assert exported == report and 'href="/' not in report
    for id in ("summary", "grid", "plots", "rates", "setting"):
        assert section(shown, id) == section(report, id)
    for run in (links := re.findall(r'class="agent"><a href="([^"]+)">', shown)):
        assert ask(run).status == 200
    assert len(links) == 3


def test_a_crashed_run_looks_the_same_in_the_report_the_group_and_its_page(ask: Ask) -> None:
    for address in ("/group/one?export=1", "/group/one", RUN):
        (callout,) = re.findall(r'<div class="callout".*?</div>', ask(address).text, re.DOTALL)
        words = " ".join(re.sub(r"<[^>]+>", " ", callout).split())
        assert words.startswith("the agent left no submission.csv The run crashed after 1 min (exit code 1).")
        assert "End of the log" in words and "validation score 0.580" in words, address
    assert 'class="score-card"' not in ask(RUN).text


def test_the_chart_of_submissions_is_next_to_the_score(ask: Ask) -> None:
    text = ask(f"/run/one/{SMOKE[0]}_agent-one-0").text
    top = text[text.index('class="run-top"') : text.index('id="log-title"')]
    assert 'class="score-card"' in top and 'id="timeline-title"' in top


def test_markdown_is_rendered_without_external_loads_links_or_hidden_text() -> None:
    shown = markdown("# Plan\n\n1. **fit**\n\n|a|b|\n|-|-|\n|1|2|\n\n```python\nx = 1 # <i>\n```")
    assert '<p class="heading">Plan</p>' in shown and "<li><strong>fit</strong></li>" in shown
    assert "<td>1</td>" in shown and '<span class="k-c"># &lt;i&gt;</span>' in shown and "<h1" not in shown
    assert "<td>c|d</td>" in markdown("|a|b|\n|-|-|\n|c\\|d|e||\n|f"), "empty cells may be omitted"
    for text in (
        "[a](javascript:alert(1)) [b](http://evil.example) [c][d]\n\n[d]: http://evil.example",
        "![a](http://evil.example/x.png) <http://evil.example> http://evil.example",
        "<script>alert(1)</script> <!-- hidden --> <img src=x onerror=alert(1)>",
        '```" onclick=alert(1) <b>\n<script>\n```',
        "> " * 5000 + "deep",
        "|a|b|\n|-|-|\n|c|d|hidden|\n|e|\n\nlast",
        "> - a|b\n>   -|-\n>   \u00a0|c|hidden|\n>   d\\|e|f|g",
        "|a|\n|-|\n||hidden|",
        "\n".join(" " * 2 * k + "- deep" for k in range(90)),
    ):
        shown = markdown(text)
        assert not re.findall(r"<(?:a|img|script|b)\b", shown), text
        kept = re.sub(r"[^a-z]", "", unescape(re.sub(r"<[^>]+>", "", shown)))
        assert kept == re.sub(r"[^a-z]", "", text), "all text is kept"


def test_malicious_markdown_is_not_slow() -> None:
    started = process_time()
    for part in ("*a ", "[", "> ", "`a", "_a*b", "- ", "\n- a", "**", "1. ", "|a\n|-\n", "~~~\n", "|a"):
        markdown((part * TEXT)[:TEXT])
    assert process_time() - started < 5


def test_conversations_are_a_visible_control_and_print_and_download_are_in_a_menu(
    tmp_path: Path, asked_of: Callable[[], Ask]
) -> None:
    record = record_with(default_catalogue()[SMOKE[0]], "gold", agent="a")
    save_group(tmp_path / "g", [record])
    write_trajectory(tmp_path / "g" / record.run_id, 3, "**bold**")
    file = tmp_path / "g" / record.run_id / "trajectory.json"
    values = json.loads(file.read_text())
    file.write_text(json.dumps(values | {"subagent_trajectories": [values | {"agent": {"name": "critic"}}]}))
    text = asked_of()(f"/run/g/{record.run_id}/trajectory").text
    (switch,) = re.findall(r'<nav class="chips conversations.*?</nav>', text, re.DOTALL)
    assert switch.count("<a ") == 2 and switch.count("aria-current") == 1 and "Conversation 2: critic" in switch
    (menu,) = re.findall(r'<details class="menu">.*?</details>', text, re.DOTALL)
    assert "Download" in menu and "data-print" in menu and "export=1" in menu
    assert "<strong>bold</strong>" in text


def test_rates_and_plots_of_a_live_group_are_updated_only_when_a_run_ends(
    tmp_path: Path, asked_of: Callable[[], Ask], monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []

    def counted(groups: Sequence[RunGroup]) -> Overview:
        made.append(len(groups[0].runs))
        return overview(groups)

    monkeypatch.setattr(group_pages, "overview", counted)
    competition = default_catalogue()[SMOKE[0]]
    records = [record_with(competition, "gold", agent="a", seed=seed) for seed in range(2)]
    save_group(tmp_path / "g", records[:1], planned=[record.key for record in records])
    ask = asked_of()
    assert "1 of 2 runs finished" in ask("/group/g").text
    run_dir = tmp_path / "g" / records[1].run_id
    run_dir.mkdir()
    with mark_running(run_dir, records[1].key, worker="gw0", time_limit=60.0):
        assert "Running now" in ask("/group/g").text
    replace(records[1], run_group="g").write(run_dir)
    assert "2 of 2 runs finished" in ask("/group/g").text
    assert made == [1, 2]
