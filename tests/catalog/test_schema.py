"""Validation of competition.yaml: errors name the file, the key and the expected value."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import pytest_mlebench
from pytest_mlebench.catalog import Competition
from pytest_mlebench.data.preparing import read_description
from pytest_mlebench.errors import CompetitionError, DataError
from pytest_mlebench.io.files import bundled

TEXT = """\
id: mine
title: My Competition
split: house
category: Chess
data_types: [csv]
metric: elo
direction: higher
answers: private/answers.csv
sample_submission_score: 0.5
checksums: {public: {}}
leaderboard: {teams: 1000, gold: 0.9, silver: 0.8, bronze: 0.7, median: 0.6, percentiles: []}
"""
FALLING = ", ".join(f"{1 - k / 100:.2f}" for k in range(100))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/description.md").write_text("# Mine\n")
    (tmp_path / "mine/competition.yaml").write_text(TEXT)
    return tmp_path / "mine/competition.yaml"


def error_of(file: Path, text: str) -> str:
    file.write_text(text)
    with pytest.raises(CompetitionError) as raised:
        Competition.load(file)
    assert str(raised.value).startswith(str(file))
    return str(raised.value).removeprefix(str(file)).lstrip(": ")


def test_splits_categories_and_metrics_can_have_custom_names(file: Path) -> None:
    competition = Competition.load(file)
    assert (competition.split, competition.category, competition.metric) == ("house", "Chess", "elo")
    assert competition.leaderboard.gold == 0.9 and competition.answers == competition.perfect_submission


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("title: My", "titel: My", "unknown key 'titel'; did you mean title?"),
        ("title: My Competition", "", "lacks title"),
        ("title: My Competition", "title: 2048", "title: expected text in quotes, found the number 2048"),
        ("title: My Competition", "title: [My, Competition]", "title: expected text, found a list"),
        ("id: mine", "id: other", "id: expected the folder's name, 'mine', found 'other'"),
        ("id: mine", "id: a/b", "id: expected letters, digits, '-', '_' and '.', found 'a/b'"),
        ("split: house", "split: meduim", "split: unknown split 'meduim'; did you mean medium?"),
        ("split: house", "split: Low", "split: unknown split 'Low'; did you mean low?"),
        ("split: house", "split: lite", "split: 'lite' is an alias of other splits"),
        ("category: Chess", "category: Tabluar", "category: unknown category 'Tabluar'; did you mean Tabular?"),
        ("metric: elo", "metric: acuracy", "metric: unknown metric 'acuracy'; did you mean accuracy?"),
        ("[csv]", "csv", "data_types: expected a list of text, found 'csv'"),
        ("[csv]", "[csv, 7]", "data_types[1]: expected text in quotes, found the number 7"),
        ("direction: higher", "direction: up", "direction: expected 'lower' or 'higher', found 'up'"),
        ("direction: higher", "direction: [up]", "direction: expected 'lower' or 'higher', found a list"),
        ("direction: higher", "direction: higher\nsource: web", "source: expected 'kaggle' or 'bundled', found 'web'"),
        ("direction: higher", "direction: higher\nkernel_only: 1", "kernel_only: expected true or false"),
        ("direction: higher", "direction: higher\nanswers_rows: 0", "answers_rows: expected a whole number above 0"),
        ("private/answers", "public/answers", "answers: expected a path below private/, found 'public/answers.csv'"),
        ("private/answers", "private/../x", "answers: expected a path below private/"),
        ("score: 0.5", "score: 6e-05", "sample_submission_score: expected a finite number with a point, as in 1.0e-5"),
        ("{public: {}}", "{pubic: {}}", "checksums: unknown key 'pubic'; did you mean public?"),
        ("{public: {}}", "{public: {a.csv: 1}}", "checksums.public['a.csv']: expected an md5 digest"),
        ("teams: 1000", "teams: 0", "leaderboard.teams: expected a whole number above 0, found the number 0"),
        ("teams: 1000", "team: 1000", "leaderboard.teams: is missing"),
        ("gold: 0.9", "gold: .inf", "leaderboard.gold: expected a finite number, found the number inf"),
        ("gold: 0.9", "gold: first", "leaderboard.gold: expected a finite number, found 'first'"),
        ("gold: 0.9", "gold: true", "leaderboard.gold: expected a finite number, found the boolean true"),
        ("silver: 0.8", "silver: 0.95", "leaderboard.silver: expected at most the score of gold, 0.9, since higher is"),
        ("direction: higher", "direction: lower", "leaderboard.silver: expected at least the score of gold, 0.9"),
        ("[]", "[0.9, 0.8]", "leaderboard.percentiles: expected 100 scores (at the top 1 %, 2 %, … 100 %), found"),
        ("[]", f"[{FALLING[:-4]}0.5]", "leaderboard.percentiles[99]: expected a score no better than the one before"),
        ("[]", f"[{FALLING[:-4]}.nan]", "leaderboard.percentiles[99]: expected a finite number"),
        (TEXT[TEXT.index("{teams") :], "12", "leaderboard: expected a mapping with teams, gold, silver"),
    ],
)
def test_an_error_names_its_key_and_the_expected_value(file: Path, old: str, new: str, message: str) -> None:
    assert old in TEXT
    assert message in error_of(file, TEXT.replace(old, new))


def test_all_errors_in_a_file_are_reported_together(file: Path) -> None:
    text = TEXT.replace("title", "titel").replace("teams: 1000", "teams: none")
    assert [line.removeprefix(f"{file}: ") for line in error_of(file, text).splitlines()] == [
        "unknown key 'titel'; did you mean title?",
        "lacks title",
        "leaderboard.teams: expected a whole number above 0, found 'none'",
    ]


@pytest.mark.parametrize("layout", ["[{}]", "[\n    {}]"])
def test_100_decreasing_percentiles_are_valid(file: Path, layout: str) -> None:
    lines = TEXT.replace("leaderboard: {", "leaderboard:\n  ").replace("}\n", "\n").replace(", ", "\n  ")
    lines = lines.replace("checksums: {public: {}\n", "").replace("[]", layout.format(FALLING))
    file.write_text(lines)
    assert Competition.load(file).leaderboard.percentiles == tuple(map(float, FALLING.split(", ")))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: " + "[" * 900 + "]" * 900 + "  # " + "-" * 5000, "is nested deeper than 20 levels"),
        ("a: " + "[" * 3000 + "]" * 3000, "nest"),  # libyaml has its own limit
        ("- " * 200_000 + "x", "nest"),
        ("title: " + "[" * 900 + "]" * 900, "title: expected text, found a list"),
        ("a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]", "*a: aliases are not supported; repeat the value"),
        ("a: &a {x: 1}\nb: {<<: [*a, *a]}", "*a: aliases are not supported"),
        ("id: [", ", line 2: is not valid YAML: did not find expected node content"),
        ("id: !!python/object:os.system x", ", line 1: is not valid YAML: could not determine a constructor"),
        ("id: \0", "is not valid YAML: "),
        ("- a list", "must be a mapping of keys, for example `id: mine`"),
        ("", "must be a mapping of keys"),
    ],
)
def test_invalid_yaml_is_a_one_line_error(file: Path, text: str, message: str) -> None:
    error = error_of(file, text)
    assert message in error and ("title" in message or "\n" not in error)


def test_bytes_that_are_not_text_are_rejected(file: Path) -> None:
    file.write_bytes(b"id: \xff\xfe")
    with pytest.raises(CompetitionError, match="is not UTF-8 text"):
        Competition.load(file)


def test_a_competition_without_a_description_is_rejected(file: Path) -> None:
    (file.parent / "description.md").unlink()
    with pytest.raises(CompetitionError, match=r"mine/description.md is missing: agents read the task there"):
        Competition.load(file)


@pytest.mark.parametrize(
    ("text", "ours"),
    [
        (TEXT, True),
        ('{"id": "mine", "leaderboard": {}}', True),
        ('"leaderboard" : {}', True),
        ("name: another tool's\nteams: [a, b]", False),
        ("results:\n  leaderboard: nested", False),
        ("id: [", False),
        ("\0", False),
    ],
)
def test_a_file_without_a_leaderboard_is_not_ours(file: Path, text: str, ours: bool) -> None:
    file.write_text(text)
    assert Competition.is_ours(file) is ours and Competition.is_ours(file.parent) is ours


def test_a_pipe_or_a_huge_file_is_not_ours(file: Path) -> None:
    with file.open("ab") as sparse:
        sparse.truncate(1 << 40)
    assert not Competition.is_ours(file)
    file.unlink()
    os.mkfifo(file)
    assert not Competition.is_ours(file)


READERS: dict[str, Callable[[Competition], object]] = {
    "description.md": read_description,
    "description_obfuscated.md": lambda competition: competition.obfuscated_description,
    "golden.json": lambda competition: competition.golden,
    "kernels.json": lambda competition: competition.kernels,
}


@pytest.mark.parametrize("name", READERS)
def test_text_files_are_regular_files_of_a_limited_size_in_utf8(file: Path, name: str) -> None:
    competition, text, secret = Competition.load(file), file.with_name(name), file.with_name("secret")
    secret.write_text("[]")
    text.unlink(missing_ok=True)
    text.symlink_to(secret)
    for words in ("it is a link", "it is not UTF-8 text (byte 2)", "it has more than 4,194,304 bytes"):
        with pytest.raises((CompetitionError, DataError)) as raised:
            READERS[name](competition)
        assert str(raised.value).startswith(f"{text}: {words}")
        text.unlink(missing_ok=True)
        text.write_bytes(b"a\xff" if "link" in words else bytes(1 << 23))


def test_an_installer_may_link_the_bundled_files(tmp_path: Path) -> None:
    for folder in (Path(pytest_mlebench.__file__).parent, bundled("competitions") / "smoke-digits"):
        target = tmp_path / folder.relative_to(bundled("competitions").parent)
        shutil.copytree(folder, target, copy_function=os.symlink)
    code = "from pytest_mlebench import default_catalogue; [one] = default_catalogue(); print(one.golden['seed'])"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    result = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, cwd=tmp_path)
    assert result.stdout.strip().isdecimal(), result.stderr
