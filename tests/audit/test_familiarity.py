"""``mlebench familiarity`` compares how well a base model knows competitions' texts with a group's scores."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from scipy.stats import pearsonr

from pytest_mlebench.catalog import default_catalogue
from pytest_mlebench.cli.main import main
from pytest_mlebench.extras.audit.familiarity import correlation, normalised
from pytest_mlebench.results.findings import Knowledge
from tests.groups import record_with, report_of, save_group
from tests.llm.completions_server import Scripted, serving

IDS = ("spaceship-titanic", "dogs-vs-cats-redux-kernels-edition", "leaf-classification", "aerial-cactus-identification",
    "smoke-digits")  # fmt: skip
KNOWN = (0.1, 0.35, 0.6, 0.2, 0.85)
SHARES = (0.2, 0.3, 0.9, 0.1, 1.0)
"""Scores of the runs, from 0 for the sample submission to 1 for gold."""


@pytest.fixture
def server() -> Iterator[Scripted]:
    with serving(Scripted(knows={f"text of {id}": p for id, p in zip(IDS, KNOWN, strict=True)})) as scripted:
        yield scripted


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """``reports/group`` has a run of each competition, and ``texts`` two texts of each."""
    import dataclasses

    records = []
    for id, share in zip(IDS, SHARES, strict=True):
        competition = default_catalogue()[id]
        sample, gold = competition.sample_submission_score, competition.leaderboard.gold
        assert sample is not None
        report = report_of(competition, sample + share * (gold - sample))
        records.append(dataclasses.replace(record_with(competition, "gold"), report=report))
        (tmp_path / "texts" / id).mkdir(parents=True)
        (tmp_path / f"texts/{id}.md").write_text(f"text of {id}: the page has words")
        (tmp_path / f"texts/{id}/discussion.txt").write_text(f"text of {id}: what people said of it")
    records.append(record_with(default_catalogue()["smoke-diabetes"], "crashed"))
    save_group(tmp_path / "reports/group", records)
    return tmp_path


def call(folder: Path, server: Scripted, *more: str, texts: bool = True) -> int:
    arguments = ["familiarity", "group", "--model=base/7b", f"--base-url={server.url}", *more]
    arguments += [f"--runs-dir={folder / 'reports'}", f"--data-dir={folder / 'data'}"]
    return main(arguments + ([f"--texts={folder / 'texts'}"] if texts else []))


def result(folder: Path) -> Any:
    return json.loads((folder / "reports/group/familiarity-base-7b.json").read_text())


def test_the_correlation_is_pearsons_with_its_confidence_interval(
    folder: Path, server: Scripted, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(folder, server) == 0
    found = result(folder)
    expected = pearsonr(KNOWN, SHARES)
    interval = expected.confidence_interval(0.95)
    (one,) = found["correlations"]
    assert (one["r"], one["low"], one["high"]) == pytest.approx((expected.statistic, *interval), abs=1e-4)
    own = {entry["competition_id"]: entry for entry in found["competitions"]}
    assert [own[id]["familiarity"] for id in IDS] == pytest.approx(KNOWN, abs=1e-5)
    assert [own[id]["scores"]["agent"] for id in IDS] == pytest.approx(SHARES, abs=1e-3)
    assert {len(entry["texts"]) for entry in found["competitions"]} == {2}
    assert found["left_out"] == {"smoke-diabetes": "no run has a score"}
    shown = capsys.readouterr().out
    assert f"agent: r = {expected.statistic:.2f} [{interval.low:.2f}, {interval.high:.2f}], 5 competitions" in shown
    assert "left out: smoke-diabetes: no run has a score" in shown


def test_the_plot_has_a_point_for_each_competition(folder: Path, server: Scripted) -> None:
    call(folder, server)
    picture = (folder / "reports/group/familiarity-base-7b.svg").read_text()
    ElementTree.fromstring(picture)
    assert "http" not in picture.replace("http://www.w3.org/2000/svg", "")
    assert sum(f"on {id}: familiarity" in picture for id in IDS) == 5 and "r = 0." in picture


def test_answered_questions_are_not_asked_again(
    folder: Path, server: Scripted, capsys: pytest.CaptureFixture[str]
) -> None:
    """This includes answers from interrupted calls and for other groups."""
    call(folder, server)
    assert len(server.requests) == 10
    first = result(folder)
    call(folder, server)
    assert len(server.requests) == 10 and result(folder) == first
    kept = sorted((folder / "data/.familiarity").iterdir())
    kept[0].write_text('{"probabilities": [0.5')
    for path in kept[1:4]:
        path.unlink()
    server.statuses += [200, 200, 401]
    assert call(folder, server) == 1
    assert "returned status 401" in capsys.readouterr().err
    assert len(server.requests) == 13
    call(folder, server)
    assert len(server.requests) == 15 and result(folder) == first, "two of the four have been answered"
    (folder / f"texts/{IDS[0]}.md").write_text(f"text of {IDS[0]}: another page")
    call(folder, server)
    assert len(server.requests) == 16, "another text is another question"


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--key=MY_KEY", "abc\n", "--key: $MY_KEY has a space, a line break or a non-ASCII character"),
        ("--key=MY_KEY", "ключ", "--key: $MY_KEY has a space, a line break or a non-ASCII character"),
        ("--base-url=http://localhost:1/ü", "", "is not a URL"),
        ("--base-url=http://localhost:1/a b", "", "is not a URL"),
    ],
)
def test_keys_and_urls_that_cannot_be_sent_are_rejected_before_any_call(
    option: str,
    value: str,
    said: str,
    folder: Path,
    server: Scripted,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MY_KEY", value)
    assert call(folder, server, option) == 2
    assert said in capsys.readouterr().err and not server.requests


def test_fewer_than_four_competitions_are_rejected_before_any_call(
    folder: Path, server: Scripted, capsys: pytest.CaptureFixture[str]
) -> None:
    for id in IDS[:2]:
        (folder / f"texts/{id}.md").unlink()
        (folder / f"texts/{id}/discussion.txt").unlink()
    assert call(folder, server) == 2
    assert "needs at least 4 competitions with a score and a text; there are 3" in capsys.readouterr().err
    assert not server.requests


def test_without_texts_bundled_descriptions_are_used_with_a_warning(
    folder: Path, server: Scripted, caplog: pytest.LogCaptureFixture
) -> None:
    assert call(folder, server, texts=False) == 0
    assert "5 of 5 competitions have only our own description" in caplog.text
    assert result(folder)["own_texts"] is True
    assert "## Task" in server.requests[0]["prompt"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--base-url=localhost:8000"], "--base-url: localhost:8000 is not a URL"),
        (["--key=NO_SUCH_KEY"], "--key: the environment variable NO_SUCH_KEY is not set"),
        (["--texts=nowhere"], "--texts: nowhere is not a folder"),
    ],
)
def test_mistakes_are_one_line(
    folder: Path, server: Scripted, capsys: pytest.CaptureFixture[str], options: list[str], said: str
) -> None:
    assert call(folder, server, *options, texts=False) == 2
    error = capsys.readouterr().err.strip()
    assert said in error and "\n" not in error


def profile_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    assert main(["report", "group", f"--runs-dir={folder / 'reports'}"]) == 0
    (line,) = [
        line for line in capsys.readouterr().out.replace("\n  ", " ").splitlines() if line.startswith("familiarity:")
    ]
    return line


def test_reports_show_whether_scores_correlate_with_familiarity(
    folder: Path, server: Scripted, capsys: pytest.CaptureFixture[str]
) -> None:
    assert profile_line(folder, capsys) == "familiarity: unknown: not measured: see `mlebench familiarity`"
    call(folder, server)
    (one,) = result(folder)["correlations"]
    said = f"agent with base/7b: r = {one['r']:.2f} [{one['low']:.2f}, {one['high']:.2f}], 5 competitions"
    assert one["low"] > 0
    line = profile_line(folder, capsys)
    assert line == f"familiarity: differs (declared): scores rise with a model's familiarity with the texts ({said})"
    path = folder / "reports/group/familiarity-base-7b.json"
    values = json.loads(path.read_text())
    for low, high, expected in (
        (-0.4, 0.3, "canonical: scores do not correlate strongly with a model's familiarity with the texts ("),
        (-0.4, 0.8, "unknown: too few competitions to tell ("),
    ):
        values["correlations"] = [{**one, "r": 0.1, "low": low, "high": high}]
        path.write_text(json.dumps(values))
        assert profile_line(folder, capsys).startswith(f"familiarity: {expected}agent with base/7b: r = 0.10 [")
    path.write_text("{")
    assert profile_line(folder, capsys) == "familiarity: unknown: the measurements cannot be read"
    path.write_text(json.dumps(values | {"own_descriptions": 5}))
    line = profile_line(folder, capsys)
    assert line.startswith("familiarity: unknown: agent with base/7b: ")
    assert line.endswith("; includes 5 texts of ours, which no model was trained on")


def test_scores_are_normalised_between_the_sample_submission_and_gold() -> None:
    for id in ("spaceship-titanic", "leaf-classification"):
        competition = default_catalogue()[id]
        sample, gold = competition.sample_submission_score, competition.leaderboard.gold
        assert sample is not None
        assert normalised(sample, competition) == 0 and normalised(gold, competition) == 1
        assert normalised((sample + gold) / 2, competition) == pytest.approx(0.5)
        assert normalised(sample - (gold - sample), competition) == 0, "worse than the sample"
        assert normalised(gold + (gold - sample), competition) == 1, "better than gold"


def test_equal_values_have_no_correlation() -> None:
    alike = [Knowledge(id, p, scores={"agent": 1.0}) for id, p in zip(IDS, KNOWN, strict=True)]
    assert correlation("agent", alike) is None
    three = [Knowledge(id, p, scores={"agent": s}) for id, p, s in zip(IDS[:3], KNOWN, SHARES, strict=False)]
    assert correlation("agent", three) is None
