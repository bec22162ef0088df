"""``mlebench report`` in each format."""

from __future__ import annotations

import csv
import io
import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from pytest_mlebench.catalog import default_catalogue
from pytest_mlebench.cli.main import main
from pytest_mlebench.llm.trajectory import TRAJECTORY
from pytest_mlebench.records.record import RunKey
from pytest_mlebench.reports.formats import COLUMNS
from pytest_mlebench.results import read_group
from tests.groups import make_group, record_with, save_group

LOW = default_catalogue().split("low")
MISSING = RunKey("aide", LOW[3].id, 1)


@pytest.fixture(scope="module")
def runs_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``full`` has all 75 competitions and one agent; ``two`` has the 22 of low, two agents, and one missing run."""
    folder = tmp_path_factory.mktemp("reports")
    make_group(folder / "full", seeds=2)
    make_group(folder / "two", agents={"aide": 0.8, "baseline": 0.4}, competitions=LOW, missing=[MISSING])
    return folder


@pytest.fixture
def report(runs_dir: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """Run the command. Returns its output and its log."""

    def run(*arguments: object, status: int = 0) -> tuple[str, str]:
        assert main(["report", "--runs-dir", str(runs_dir), *map(str, arguments)]) == status
        done = capsys.readouterr()
        return done.out, done.err

    return run


def strict(text: str) -> Any:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not valid JSON")

    return json.loads(text, parse_constant=refuse)


def cells(text: str, start: str) -> list[str]:
    """The cells of the line that starts with ``start``."""
    return re.split(r"\s{2,}", next(line for line in text.splitlines() if re.match(start, line)))


def test_the_table_fits_a_terminal_of_120_columns(report: Any) -> None:
    for arguments in (["full"], ["two", "--by=category"], ["full", "two", "--pad-missing"]):
        out, _ = report(*arguments)
        assert max(map(len, out.splitlines())) <= 120


def test_every_format_has_the_fairness_profile_of_each_group(report: Any, tmp_path: Path) -> None:
    (profile,) = (group["fairness"] for group in strict(report("full", "--format=json")[0])["groups"])
    assert {line["state"] for line in profile} <= {"canonical", "differs (declared)", "unknown"} and len(profile) == 14
    report("full", "--format=html", "-o", tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    shown = " ".join(report("full")[0].split())
    for line in profile:
        assert f"{line['name']}: {line['state']}: {line['detail']}" in shown
        assert f"<dt>{line['name']}</dt><dd><strong>{line['state']}</strong>: " in page


def test_table_and_json_agree(report: Any) -> None:
    out, _ = report("full")
    summaries = {one["split"]: one for one in strict(report("full", "--format=json")[0])["summaries"]}
    assert list(summaries) == ["low", "medium", "high", "all"]
    for split, one in summaries.items():
        rate, interval = one["any_medal"], one["interval"]
        split, agent, runs, any_medal, shown, percentile, pass_at_2 = cells(out, rf"{split} ")
        assert (agent, runs) == ("aide", f"{one['competitions']} × 2")
        error = rate["standard_error"]
        assert any_medal == f"{rate['mean']:.1f}" + (f" ± {error:.1f}" if error >= 0.05 else "")
        assert shown == f"[{interval['low']:.1f}, {interval['high']:.1f}]"
        between = one["percentile_interval"]
        assert percentile == f"{one['percentile']:.1f} [{between['low']:.1f}, {between['high']:.1f}]"
        assert pass_at_2 == f"{one['pass_at_k']['2']:.1f}"


def test_the_table_shows_the_neighbours_in_the_published_table(report: Any) -> None:
    out, _ = report("full")
    (standing,) = strict(report("full", "--format=json")[0])["published"]["standings"]
    part = out[out.index("Among the published results, all") :].splitlines()
    own = next(k for k, line in enumerate(part) if line.split()[:2] == ["→", "aide"])
    near = [*reversed(standing["better"]), None, *standing["worse"]]
    assert [result is None or result["agent"] in part[own - 2 + k] for k, result in enumerate(near)] == [True] * 5
    assert part[own - 3].strip() == "…" and part[own + 3] == ""
    assert f"aide: rank {standing['rank']} of {standing['of']}" in part


def test_two_agents_are_shown_side_by_side_and_compared(report: Any) -> None:
    out, _ = report("two", "--pad-missing")
    lines = out.splitlines()
    row = next(k for k, line in enumerate(lines) if line.startswith("low"))
    assert lines[row].split()[1] == "aide" and lines[row + 1].split()[1] == "baseline"
    data = strict(report("two", "--pad-missing", "--format=json")[0])
    ours, theirs = data["summaries"]
    (comparison,) = data["comparisons"]
    assert comparison["difference"] == pytest.approx(ours["any_medal"]["mean"] - theirs["any_medal"]["mean"])
    assert comparison["wins"] + comparison["ties"] + comparison["losses"] == comparison["competitions"] == 22
    assert comparison["runs"] == 66
    assert cells(out, r"low +66 on 22 ")[2] == f"{comparison['difference']:+.1f}"


def test_missing_runs_are_omitted_or_padded_and_every_format_shows_it(report: Any) -> None:
    left_out = "seed 1 is incomplete and left out (1 run of 66 without a result)"
    padded = "seed 1 is padded with failures (1 run of 66 without a result)"
    for format in ("table", "md", "json"):
        assert left_out in report("two", "--format", format)[0]
        assert padded in report("two", "--pad-missing", "--format", format)[0]
    by_outcome = report("two")[0]
    assert re.search(r"aide: 66 runs: .*\b1 missing", " ".join(by_outcome.split()))
    rows = pd.read_csv(io.StringIO(report("two", "--format=csv")[0]))
    assert rows[rows.outcome == "missing"][["agent", "competition_id", "seed"]].values.tolist() == [list(MISSING)]


def test_json_has_all_results(report: Any) -> None:
    data = strict(report("full", "two", "--by=category", "--format=json")[0])
    assert data.keys() == {
        "pad_missing",
        "groups",
        "summaries",
        "categories",
        "published",
        "comparisons",
        "costs",
        "timelines",
        "runs",
    }
    assert [group["planned"] for group in data["groups"]] == [150, 132]
    assert [group["records"] for group in data["groups"]] == [150, 131]
    assert len(data["runs"]) == 282
    labels = {summary["label"] for summary in data["summaries"]}
    assert labels == {"aide in full", "aide in two", "baseline"}
    of_full = [one for one in data["categories"] if one["group"] == "full"]
    assert sum(one["competitions"] for one in of_full) == 75


def test_json_without_results_is_valid(report: Any, tmp_path: Path) -> None:
    save_group(tmp_path / "begun", [], planned=[RunKey("aide", LOW[0].id, 0)])
    (summary,) = strict(report(tmp_path / "begun", "--format=json")[0])["summaries"]
    assert summary["any_medal"] == {"mean": None, "standard_error": None} and summary["provisional"]
    shown = report(tmp_path / "begun")[0]
    assert "provisional: no seed is complete" in shown and "× 0" not in shown and cells(shown, "low ")[2] == "0 of 1"
    (row,) = strict(report(tmp_path / "begun", "--format=summary-json")[0])
    assert row["any_medal"] is row["percentile"] is row["any_medal_seeds_for_5"] is None and not row["complete"]
    assert "0 of 1 & -- & --" in report(tmp_path / "begun", "--format=latex")[0]


def test_padding_cannot_be_combined_with_csv(report: Any) -> None:
    assert "--pad-missing changes rates" in report("two", "--format=csv", "--pad-missing", status=2)[1]


def test_csv_has_a_line_for_each_run(report: Any, runs_dir: Path) -> None:
    rows = pd.read_csv(io.StringIO(report("two", "full", "--format=csv")[0]))
    assert tuple(rows.columns) == COLUMNS and len(rows) == 282
    own = rows[(rows.group == "full")]
    grading = json.loads((runs_dir / "full/grading_report.json").read_text())
    assert own.any_medal.astype(bool).sum() == grading["total_medals"]
    assert own.score.notna().sum() == sum(one["score"] is not None for one in grading["competition_reports"])


def test_markdown_consists_of_headings_and_complete_tables(report: Any) -> None:
    out, _ = report("full", "two", "--by=category", "--format=md")
    assert out.startswith("# aide in full, aide in two and baseline on all of MLE-bench, 1–9 March 2026\n")
    blocks = [block.splitlines() for block in out.split("\n\n")]
    tables = [block for block in blocks if block[0].startswith("|")]
    assert len(tables) >= 5
    for head, rule, *rows in tables:
        assert rows and re.fullmatch(r"\|( -+:? \|)+", rule)
        columns = {len(re.findall(r"(?<!\\)\|", line)) for line in (head, rule, *rows)}
        assert len(columns) == 1
    verdict, *others = (line for block in blocks for line in block if not line.startswith(("#", "|")))
    assert verdict.startswith("aide in full earned a medal in ") and verdict.endswith(".")
    assert others.pop(0) == "1 of 282 planned runs has no result yet."
    assert all(line.startswith("- ") for line in others)


def test_names_cannot_break_markdown(report: Any, tmp_path: Path) -> None:
    save_group(tmp_path / "g", [record_with(LOW[1], "gold", agent="a|b *c*")])
    assert r"| a\|b \*c\* |" in report(tmp_path / "g", "--format=md")[0]


def test_tables_with_long_names_are_readable(report: Any, tmp_path: Path) -> None:
    for name in ("2026-03-01T12-00-00-aaaa", "2026-03-01T12-00-00-bbbb"):
        make_group(tmp_path / name, agents=["a-scaffold/with-a-variant"], competitions=LOW)
    out, _ = report(*tmp_path.iterdir())
    assert max(len(line) for line in out.splitlines()) <= 120
    assert re.search(r"…\S+-aaaa  22 × \d", out) and re.search(r"…\S+-bbbb  22 × \d", out)


def test_a_report_is_written_to_a_file(report: Any, tmp_path: Path) -> None:
    assert report("full", "--format=json", "--output", tmp_path / "report.json")[0] == ""
    assert strict((tmp_path / "report.json").read_text())["runs"]
    _, err = report("full", "--output", tmp_path / "no/such/folder.txt", status=2)
    assert "cannot be written: No such file or directory" in err


def test_json_on_the_terminal_has_the_same_values_and_no_ci_commands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "a::b::c ##[d]"
    record = record_with(LOW[0], "invalid_submission")
    save_group(tmp_path / name, [replace(record, report=replace(record.report, error=name))], planned=[record.key])
    (tmp_path / name / record.run_id / TRAJECTORY).write_text(json.dumps({"steps": [], "notes": name}))
    for found, *words in (
        ("runs", "report", str(tmp_path / name), "--format=json"),
        (0, "report", str(tmp_path / name), "--format=summary-json"),
        (0, "groups", "--json"),
        ("notes", "trajectory", f"{name}/{record.run_id}", "--format=atif"),
    ):
        assert main([*words, f"--runs-dir={tmp_path}"]) == 0
        out = capsys.readouterr().out
        assert name in str(json.loads(out)[found]) and "::" not in out and "##" not in out, words


def test_runs_are_rejected_before_plots_are_written(report: Any, tmp_path: Path) -> None:
    _, err = report("two", "--runs", "--format=json", f"--plots={tmp_path / 'plots'}", status=2)
    assert "--runs adds to the table and to Markdown" in err and not (tmp_path / "plots").exists()


def test_the_error_for_an_unknown_group_suggests_close_matches(report: Any, runs_dir: Path) -> None:
    _, err = report("flul", status=2)
    assert f"unknown run group (below {runs_dir}) 'flul'; did you mean full?" in err


def test_a_folder_without_runs_is_not_a_group(report: Any, tmp_path: Path) -> None:
    _, err = report(tmp_path, status=2)
    assert "is not a run group: it contains neither manifest.json nor the record of a run" in err


def test_a_group_given_twice_is_rejected(report: Any, runs_dir: Path) -> None:
    _, err = report("full", runs_dir / "full", status=2)
    assert "is given twice" in err


@pytest.mark.parametrize(
    ("manifest", "message"),
    [
        ("[]", "it must be an object, not []"),
        ("{", "Expecting property name"),
        ("[" * 100_000 + "]" * 100_000, "it is nested deeper than 100 levels"),
        ('{"options": ' + '{"a": ' * 500 + "1" + "}" * 501, "it is nested deeper than"),
        ('{"runs": [{"agent": "a"}]}', "it lacks runs[0].competition_id"),
        ('{"runs": {}}', "runs must be a list, not {}"),
        ('{"runs": [], "sessions": [3]}', "sessions[0] must be an object, not 3"),
        ('{"created_at": 1}', "created_at must be text, not 1"),
        ('{"canonical": {"is_canonical": "no"}}', 'canonical.is_canonical must be true or false, not "no"'),
        ('{"settings": {"competitions": []}}', "settings.competitions must be an object of objects"),
    ],
)
def test_the_error_for_an_invalid_manifest_is_readable(
    report: Any, tmp_path: Path, manifest: str, message: str
) -> None:
    save_group(tmp_path / "g", [record_with(LOW[1], "gold")])
    (tmp_path / "g/manifest.json").write_text(manifest)
    _, err = report(tmp_path / "g", status=2)
    assert f"{tmp_path / 'g/manifest.json'}" in err and message in err


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "Expecting property name"),
        ("[]", "it must be an object, not []"),
        ('{"run_id": "x"}', "it lacks run_group"),
        ('{"report": {}}', "it lacks run_id"),
        ("\xff", "it is not UTF-8 text (byte 1)"),
    ],
)
def test_the_error_for_an_invalid_record_names_its_path(report: Any, tmp_path: Path, text: str, reason: str) -> None:
    save_group(tmp_path / "g", [record_with(LOW[1], "gold", seed=seed) for seed in range(2)])
    path = sorted((tmp_path / "g").glob("*/run.json"))[0]
    path.write_bytes(text.encode("latin-1"))
    out = " ".join(report(tmp_path / "g")[0].split())
    assert f"left out: {path} is not a run record: " in out and reason in out
    assert reason in strict(report(tmp_path / "g", "--format=json")[0])["groups"][0]["broken"][0]


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("started_at", None, "started_at must be text, not null"),
        ("seed", "0", 'seed must be a whole number, not "0"'),
        ("seconds", 10**400, "it has a number of 401 digits"),
        ("ending", "tired", "ending must be one of finished, timed out"),
        ("permissions", {"granted": []}, "permissions.granted must be an object"),
        ("permissions", {"used": None}, "permissions.used must be an object"),
    ],
)
def test_a_record_with_a_wrong_value_is_invalid(
    report: Any, tmp_path: Path, key: str, value: object, reason: str
) -> None:
    save_group(tmp_path / "g", [record_with(LOW[1], "crashed", seed=seed) for seed in range(2)])
    path = sorted((tmp_path / "g").glob("*/run.json"))[0]
    path.write_text(json.dumps(json.loads(path.read_text()) | {key: value}))
    assert f"not a run record: {reason}" in " ".join(report(tmp_path / "g")[0].split())


@pytest.mark.parametrize(
    ("name", "words", "beginning"),
    [
        ("runs.csv", (), "group,"),
        ("all.json", (), "{"),
        ("rates.md", (), "# "),
        ("page.html", (), "<!doctype html>"),
        ("rates.txt", (), "agent on "),
        ("rates.csv", ("--format=md",), "# "),
    ],
)
def test_the_suffix_of_the_output_sets_the_format(
    report: Any, tmp_path: Path, name: str, words: tuple[str, ...], beginning: str
) -> None:
    save_group(tmp_path / "g", [record_with(LOW[1], "gold")])
    report(tmp_path / "g", "-o", tmp_path / name, *words)
    assert (tmp_path / name).read_text().lower().startswith(beginning)


def test_an_invalid_record_is_a_warning_in_every_format(tmp_path: Path) -> None:
    save_group(tmp_path / "g", [record_with(LOW[1], "gold", seed=seed) for seed in range(2)])
    path = sorted((tmp_path / "g").glob("*/run.json"))[0]
    path.write_text("{")
    command = [sys.executable, "-m", "pytest_mlebench.cli", "report", str(tmp_path / "g"), "--format=csv"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr.startswith(f"warning: {path} is not a run record: ")
    assert len(list(csv.reader(done.stdout.splitlines()))) == 2


@pytest.mark.parametrize("begin", ["=", "+", "-", "@", " =", "\t=", "\x1b[0m=", "\u200e="])
def test_a_reason_cannot_become_a_spreadsheet_formula(report: Any, tmp_path: Path, begin: str) -> None:
    record = record_with(LOW[1], "crashed")
    save_group(tmp_path / "g", [replace(record, detail=f"{begin}HYPERLINK(1)", error=f"{begin}cmd|' /C calc'!A0")])
    (row,) = csv.DictReader(report(tmp_path / "g", "--format=csv")[0].splitlines())
    assert "HYPERLINK" in row["detail"] and "calc" in row["error"]
    assert not any(row[name].lstrip()[0] in "=+-@" for name in ("detail", "error"))


def test_a_reader_that_stops_early_is_not_an_error(runs_dir: Path) -> None:
    command = f"{sys.executable} -m pytest_mlebench.cli report full --format=csv --runs-dir '{runs_dir}' | head -n 1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert next(csv.reader([done.stdout])) == list(COLUMNS)
    assert done.stderr == ""


def test_html_is_the_report_page_with_the_same_figures(report: Any, tmp_path: Path) -> None:
    out, _ = report("two", "--format=html", "--pad-missing", "--by=category", f"--output={tmp_path / 'report.html'}")
    html = (tmp_path / "report.html").read_text()
    assert out == "" and html.startswith("<!doctype html>") and html.rstrip().endswith("</html>")
    table, _ = report("two", "--pad-missing")
    assert cells(table, "low +aide")[3] in html and "padded with failures" in html and "By category, low" in html


def test_plots_are_written_to_the_requested_folder(report: Any, tmp_path: Path) -> None:
    report("two", f"--plots={tmp_path / 'plots'}")
    written = sorted(path.name for path in (tmp_path / "plots").iterdir())
    assert written == ["outcomes.svg", "rates.svg", "scores.svg", "time.svg"]


def test_a_folder_for_plots_that_cannot_be_created_is_an_error(report: Any, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    out, told = report("two", f"--plots={tmp_path / 'file'}", status=2)
    assert out == "" and "cannot be written" in told and "name another folder" in told


def test_every_run_and_two_agents_side_by_side(report: Any, runs_dir: Path) -> None:
    out, _ = report("two", "--runs")
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert "Runs of two" in lines and "aide and baseline, competition by competition" in lines
    assert "competition aide medal baseline medal difference better gold silver bronze median" in lines
    _, _, compared = out.partition("aide and baseline, competition by competition\n")
    rows = [re.split(r" {2,}", line) for line in compared.splitlines()[2:]]
    both = [row for row in rows if len(row) == 11 and row[5] != "-"]
    assert {row[0] for row in both} <= {competition.id for competition in LOW} and len(both) > 15
    for _, first, medal, second, other_medal, difference, *_ in both:
        assert float(difference) == pytest.approx(float(second) - float(first), abs=2e-5)
        assert re.match(r"\d [a-z]", medal) and re.match(r"\d [a-z]", other_medal), "each agent has several runs"
    assert "## Runs of two" in report("two", "--runs", "--format=md")[0]
    assert "--format=csv has all runs" in report("two", "--runs", "--format=csv", status=2)[1]


def test_a_column_is_one_agent_of_a_group_not_a_mean(report: Any, runs_dir: Path) -> None:
    out, _ = report("two", "full", "--runs")
    _, _, compared = out.partition("aide in two, baseline and aide in full, competition by competition\n")
    heads = next(line for line in compared.splitlines() if line.startswith("competition "))
    assert re.split(r" {2,}", heads)[1:7] == ["aide in two", "medal", "baseline", "medal", "aide in full", "medal"]
    records = [record for record in read_group(runs_dir / "two").records if record.agent == "baseline"]
    by_competition: dict[str, set[int]] = {}
    for record in records:
        by_competition.setdefault(record.competition_id, set()).add(record.seed)
    for line in compared.splitlines():
        cells = re.split(r" {2,}", line)
        if cells[0] in by_competition:
            counted = sum(int(part.split()[0]) for part in cells[4].split(", ") if part[0].isdigit()) or 1
            assert counted <= len(by_competition[cells[0]]) == 3, "only runs of baseline"


def test_a_summary_has_a_row_for_each_agent_and_split(report: Any) -> None:
    rows = strict(report("full", "two", "--format=summary-json")[0])
    assert [(row["agent"], row["group"], row["split"]) for row in rows] == [
        ("aide", "full", "low"),
        ("aide", "two", "low"),
        ("baseline", "two", "low"),
        ("aide", "full", "medium"),
        ("aide", "full", "high"),
        ("aide", "full", "all"),
    ]
    everything = strict(report("full", "two", "--format=json")[0])
    by_name = {(one["agent"], one["group"], one["split"]): one for one in everything["summaries"]}
    for row in rows:
        one = by_name[row["agent"], row["group"], row["split"]]
        assert (row["any_medal"], row["any_medal_sem"]) == tuple(one["any_medal"].values())
        assert (row["any_medal_low"], row["any_medal_high"]) == (one["interval"]["low"], one["interval"]["high"])
        assert row["percentile"] == one["percentile"]
        needed = {own["measure"]: own["seeds_needed"] for own in one["precision"]}
        assert (row["any_medal_seeds_for_5"], row["percentile_seeds_for_5"]) == tuple(needed.values())
    runs = pd.read_csv(io.StringIO(report("full", "--format=csv")[0]))
    whole = rows[-1]
    assert whole["hours"] == pytest.approx(runs.seconds.sum() / 3600) and whole["runs"] == 150
    assert whole["cost"] is None and whole["tokens_in"] is None, "no run called models through the gateway"
    table = pd.read_csv(io.StringIO(report("full", "two", "--format=summary-csv")[0]))
    assert list(table.columns) == list(rows[0]) and table.any_medal.tolist() == [row["any_medal"] for row in rows]


def test_a_summary_totals_cost_and_tokens(report: Any, tmp_path: Path) -> None:
    llm = {"calls": 2, "cost": 1.5, "tokens": {"input": 1000, "output": 50}, "seconds": 3.0}
    save_group(tmp_path / "g", [replace(record_with(LOW[k], "gold"), llm=llm) for k in range(3)])
    (row,) = strict(report(tmp_path / "g", "--format=summary-json")[0])
    assert (row["cost"], row["tokens_in"], row["tokens_out"], row["hours"]) == (4.5, 3000, 150, 0.05)


def test_latex_tables_use_booktabs_and_escape_names(report: Any, tmp_path: Path) -> None:
    agents = ["a_b/50%", "x\\input{y}"]
    make_group(tmp_path / "g", agents=agents, competitions=LOW[:12], seeds=2)
    out, _ = report(tmp_path / "g", "--format=latex")
    first, second = re.findall(r"\\begin\{tabular\}\{(\w+)\}\n\\toprule\n(.*?)\\bottomrule\n\\end", out, re.DOTALL)
    for columns, body in (first, second):
        heads, rows = body.split("\\midrule\n")
        lines = [heads.strip(), *rows.strip().splitlines()]
        assert all(line.count(" & ") == len(columns) - 1 and line.endswith(r" \\") for line in lines)
    assert r"a\_b/50\%" in out and r"x\textbackslash{}input\{y\}" in out and "input{y}" not in out
    one = strict(report(tmp_path / "g", "--format=json")[0])["summaries"][0]
    assert f"{one['any_medal']['mean']:.1f}" in first[1] and f"[${one['interval']['low']:.1f}$" in first[1]


def test_every_pair_of_agents_is_compared(report: Any) -> None:
    data = strict(report("two", "full", "--format=json")[0])
    low = [(own["ours"], own["theirs"]) for own in data["comparisons"] if own["split"] == "low"]
    assert low == [("aide in two", "baseline"), ("aide in two", "aide in full"), ("baseline", "aide in full")]
    same = data["comparisons"][1]
    assert (same["competitions"], same["runs"]) == (22, 43), "the other agent has seeds 0 and 1, and one run is missing"
    page = report("two", "full", "--format=html")[0]
    cells = re.findall(r"<td[^>]*>(<a [^>]*>)?[+-]\d+\.\d", page)
    assert cells and not any(cells), "a difference does not belong to the runs of one agent"
    out, _ = report("two", "full")
    assert "The first agent minus the second." in out and "adjusted for the number of pairs (Holm)" in " ".join(
        out.split()
    )


def test_the_groups_are_listed(runs_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["groups", f"--runs-dir={runs_dir}"]) == 0
    heads, *lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert heads == "group created agents finished medals" and len(lines) >= 2
    assert any(line.startswith("two ") and "of" in line for line in lines)
    assert main(["groups", f"--runs-dir={runs_dir}", "--json"]) == 0
    names = {group["name"] for group in json.loads(capsys.readouterr().out)}
    assert {"two", "full"} <= names
    assert main(["groups", f"--runs-dir={runs_dir / 'nowhere'}"]) == 2
