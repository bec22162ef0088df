"""Messages of `mlebench golden` and the gate for mistakes in a competition's folder."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_mlebench import Competition, CompetitionError, MLEBenchError
from pytest_mlebench.gate.golden import make_golden

GRADED = '    return root_mean_squared_error(answers["price"], price)'
SPLIT = '    train, test = split(read_text_csv(raw / "houses.csv"), test_size=0.2)\n'
Author = Callable[[str, str, str], Competition]


@pytest.fixture
def author(new_competition: Path, tmp_path: Path) -> Author:
    """A function that copies a new competition and replaces one string in a file."""

    def change(file: str, old: str, new: str) -> Competition:
        folder = tmp_path / "competitions" / "house-prices"
        shutil.copytree(new_competition, folder, ignore=shutil.ignore_patterns("__pycache__"))
        text = (folder / file).read_text()
        assert old in text
        (folder / file).write_text(text.replace(old, new))
        return Competition.load(folder)

    return change


@pytest.mark.full
@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("None", "grade returned None, which is not a number"),
        ("'0.5'", "grade returned '0.5', which is not a number"),
        ("True", "grade returned True, which is not a number"),
        ("10**400", "grade returned 1000"),
        ("__import__('sys').exit(3)", "grade.py raised SystemExit: 3 (grade.py, line 9: return __import__"),
        ("float('nan')", "no submission has a score: <answers> scores nan; look at "),
    ],
)
def test_a_grade_that_is_not_a_score(author: Author, tmp_path: Path, body: str, words: str) -> None:
    with pytest.raises(CompetitionError) as error:
        make_golden(author("grade.py", GRADED, f"    return {body}"), tmp_path)
    assert words in str(error.value) and "Traceback" not in str(error.value)


@pytest.mark.full
def test_a_grader_that_rejects_everything(author: Author, tmp_path: Path) -> None:
    with pytest.raises(
        CompetitionError, match="no submission has a score: <answers> is invalid: column 'prize' is missing"
    ):
        make_golden(author("grade.py", '"price", on', '"prize", on'), tmp_path)


@pytest.mark.full
@pytest.mark.parametrize("kind", ["np.float32", "np.float64", "__import__('decimal').Decimal"])
def test_numbers_of_other_types_are_scores(author: Author, tmp_path: Path, kind: str) -> None:
    """A NumPy number, which many metrics return, once caused a traceback when golden.json was written."""
    competition = author("grade.py", GRADED, f"    import numpy as np\n    return {kind}(1.5)")
    assert json.loads(json.dumps(make_golden(competition, tmp_path)))["scores"]["<answers>"] == 1.5


@pytest.mark.full
@pytest.mark.parametrize(
    ("file", "old", "new", "words"),
    [
        (
            "prepare.py",
            SPLIT,
            f"    __import__('sys').exit('no')\n{SPLIT}",
            "prepare.py raised SystemExit: no",
        ),
        (
            "prepare.py",
            SPLIT,
            f"    import time\n    (public / 'now.txt').write_text(str(time.time_ns()))\n{SPLIT}",
            "prepare.py must always give the same for the same data",
        ),
        (
            "synthetic.py",
            "default_rng(seed)",
            "default_rng()",
            "must always give the same for the same seed",
        ),
        (
            "synthetic.py",
            "    return {\n",
            "    return [1]\n    return {\n",
            "must return a dictionary by name",
        ),
        ("synthetic.py", '"extra_column": noisy', '"../evil": noisy', "'../evil' is not a file name"),
        ("synthetic.py", '"extra_column": noisy', "7: noisy", "must return a dictionary by name"),
    ],
)
def test_a_module_that_breaks_its_contract(
    author: Author, tmp_path: Path, file: str, old: str, new: str, words: str
) -> None:
    with pytest.raises(MLEBenchError) as error:
        make_golden(author(file, old, new), tmp_path)
    assert words in str(error.value)


@pytest.mark.full
@pytest.mark.parametrize(
    ("content", "words"),
    [("Häuser".encode("latin-1"), "it is not UTF-8 text (byte 2)"), (b" \n", "is empty"), (b"a\0b", "is not text")],
)
def test_an_unreadable_description(author: Author, tmp_path: Path, content: bytes, words: str) -> None:
    competition = author("grade.py", GRADED, GRADED)
    competition.description.write_bytes(content)
    with pytest.raises(MLEBenchError) as error:
        make_golden(competition, tmp_path)
    assert words in str(error.value) and str(competition.description) in str(error.value)


@pytest.mark.full
def test_a_duplicate_key(author: Author) -> None:
    with pytest.raises(CompetitionError, match=r"competition\.yaml, line 3: duplicate key .title."):
        author("competition.yaml", 'title: "House Prices"', "title: House\ntitle: Home")


@pytest.mark.full
def test_the_gate_does_not_offer_to_accept_a_broken_grader(author: Author, pytester: pytest.Pytester) -> None:
    folder = author("grade.py", GRADED, "    return None").folder
    result = pytester.runpytest(folder, "-k", "scores")
    result.stdout.fnmatch_lines(["*2 more: grade.py: grade returned None, which*", "Look at */house-prices/grade.py."])
    result.stdout.no_fnmatch_line("*accept it*")


@pytest.mark.full
@pytest.mark.parametrize(
    ("groups", "words"),
    [
        (
            "{column: owner, train: public/train.csv, test: public/test.csv}",
            "public/train.csv has no column 'owner'",
        ),
        (
            "{column: id, train: public/no.csv, test: public/test.csv}",
            "public/no.csv is not a readable table: /*/public/no.csv is missing",
        ),
    ],
)
def test_groups_with_missing_columns_or_files(
    author: Author, pytester: pytest.Pytester, groups: str, words: str
) -> None:
    folder = author(
        "competition.yaml", 'title: "House Prices"', f"title: House Prices\ngroups:\n  owner: {groups}"
    ).folder
    result = pytester.runpytest(folder, "-k", "answers_stay_private")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([f"*house-prices/competition.yaml: groups.owner: {words.replace('[', '?')}*"])
    result.stdout.no_fnmatch_line("*Error*get_loc*")


@pytest.mark.full
def test_a_file_in_another_encoding_is_reported(author: Author, pytester: pytest.Pytester) -> None:
    """pytest once reported only that there were no tests."""
    competition = author("grade.py", GRADED, GRADED)
    path = competition.folder / "competition.yaml"
    path.write_bytes(path.read_bytes() + "# Häuser\n".encode("latin-1"))
    result = pytester.runpytest(competition.folder)
    result.stdout.fnmatch_lines(["*house-prices/competition.yaml: cannot be read: it is not UTF-8 text*"])
