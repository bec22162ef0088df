"""golden.json: which results are rewritten, and which reference results are kept."""

from __future__ import annotations

import json
import re
import shutil
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

from pytest_mlebench.catalog import Competition
from pytest_mlebench.cli.main import main
from pytest_mlebench.errors import CompetitionError
from pytest_mlebench.gate.golden import first_difference, lines_of, mark

TOY = Path(__file__).parents[1] / "toys/competitions/toy-parity"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(TOY, tmp_path / "toy-parity"))


def golden(folder: Path, **changes: Any) -> dict[str, Any]:
    path = folder / "golden.json"
    values: dict[str, Any] = json.loads(path.read_text()) | changes
    path.write_text(json.dumps(values))
    return values


def replace(path: Path, old: str, new: str) -> None:
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))


@pytest.mark.full
def test_a_competitions_own_results_are_rewritten(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    replace(folder / "grade.py", "return ", "return 0.9 * ")
    assert main(["golden", str(folder)]) == 0
    assert golden(folder)["scores"]["<answers>"] == 0.9 and golden(folder)["origin"] == "own"


@pytest.mark.full
def test_the_reference_results_are_kept(folder: Path) -> None:
    kept = golden(folder, origin="reference")
    assert main(["golden", str(folder)]) == 0
    assert golden(folder) == kept | {"lines": golden(folder)["lines"]}
    replace(
        folder / "synthetic.py",
        '"all_odd"',
        '"no_file": "x,y",\n        "all_ones": answers.assign(odd=1.0), "all_odd"',
    )
    assert main(["golden", str(folder)]) == 0
    added = golden(folder)
    assert added["origin"] == "reference" and added["scores"] == {**kept["scores"], "all_ones.csv": 0.5}
    assert added["invalid"] == [*kept["invalid"], "no_file.csv"]


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ("a b c d", ""),
        ("a x c d", "line 2 is the first that differs: found 'x', expected a line * digest; 3 of 4 lines *"),
        (
            "b a c d",
            "line 1 is the first that differs: found 'b', expected 'a', now line 2: the same lines in another*",
        ),
        ("a x y b c d", "line 2 * found 'x', expected 'b', which comes 2 lines later; 4 lines * in total, 6 found"),
        ("a b c d e", "line 5 * found 'e', expected the end; 4 lines expected in total, 5 found"),
        ("a c d", "line 2 * found 'c', expected 1 more line before it; 4 lines expected in total, 3 found"),
        ("a b", "line 3 * found the end, expected 2 more lines; 4 lines expected in total, 2 found"),
        ("", "line 1 * found the end, expected 4 more lines; 4 lines expected in total, 0 found"),
    ],
)
def test_a_differing_prepared_text_is_reported_with_the_expected_text(found: str, message: str, tmp_path: Path) -> None:
    for name, words in (("expected", "a b c d"), ("found", found)):
        (tmp_path / name).write_text("".join(f"{word}\n" for word in words.split()))
    expected = "".join(map(mark, lines_of(tmp_path / "expected") or []))
    assert fnmatchcase(first_difference(tmp_path / "found", expected), message)


@pytest.mark.full
@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("grade.py", "return ", "return 0.9 * ", "shuffled.csv must score 1.0; it scores 0.9"),
        ("grade.py", "return ", "return 1.0 or ", "all_odd.csv must score 0.5; it scores 1.0"),
        ("prepare.py", "assign(odd=0)", "assign(odd=1)", "public/sample_submission.csv: expected e8952"),
        ("synthetic.py", '"missing_row": answers[1:],', "", "missing_row.csv is not among the synthetic submissions"),
        ("synthetic.py", '"all_odd": answers.assign(odd=1),', "", "all_odd.csv is in golden.json, but not among"),
    ],
)
def test_results_that_differ_from_the_reference_are_rejected_unless_forced(
    folder: Path, capsys: pytest.CaptureFixture[str], file: str, old: str, new: str, message: str
) -> None:
    kept = golden(folder, origin="reference")
    replace(folder / file, old, new)
    assert main(["golden", str(folder)]) == 1
    error = capsys.readouterr().err
    assert message in error and "`mlebench golden --force " in error
    assert golden(folder) == kept
    assert main(["golden", "--force", str(folder)]) == 0
    assert golden(folder)["origin"] == "own"


@pytest.mark.full
def test_a_golden_file_with_missing_keys_is_reported(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "golden.json").write_text('{"origin": "reference"}')
    assert main(["golden", str(folder)]) == 1
    error = capsys.readouterr().err
    assert "golden.json is not valid: it lacks seed" in error and "`mlebench golden --force " in error
    assert main(["golden", "--force", str(folder)]) == 0


@pytest.mark.parametrize(
    "key, value, message",
    [
        ("seed", "1", 'seed must be a whole number, not "1"'),
        ("seed", True, "seed must be a whole number, not true"),
        ("seed", -1, "seed must be at least 0, not -1"),
        ("public", [], "public must be an object, not []"),
        ("scores", 5, "scores must be an object, not 5"),
        ("scores", {"a.csv": "0.5"}, 'scores.a.csv must be a number, not "0.5"'),
        ("scores", {"a.csv": None}, "scores.a.csv must be a number, not null"),
        ("invalid", {}, "invalid must be a list, not {}"),
        ("no_score", [7], "no_score[0] must be text, not 7"),
        ("lines", 3, "lines must be an object, not 3"),
        ("lines", {"public": {"test.csv": 1}}, "lines.public.test.csv must be text, not 1"),
    ],
)
def test_a_golden_file_with_invalid_values_is_reported(folder: Path, key: str, value: Any, message: str) -> None:
    """These once caused tracebacks in the gate."""
    made = golden(folder)
    (folder / "golden.json").write_text(json.dumps({**made, key: value}))
    with pytest.raises(
        CompetitionError, match=re.escape(f"golden.json is not valid: {message}; create it with `mlebench golden --f")
    ):
        _ = Competition.load(folder).golden
