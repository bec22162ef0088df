"""The gate passes correct competitions and reports the defects of others."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_mlebench.cli.main import main

TOY = Path("competitions/toy-parity")


def check(project: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return project.runpytest_subprocess(str(TOY), "-p", "no:cacheprovider", "-rx", *arguments)


def assert_fails(project: pytest.Pytester, name: str, message: str, *options: str) -> None:
    result = check(project, "-k", name, *options)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([message])


def replace(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


@pytest.mark.full
def test_a_correct_competition_passes_all_four_checks(project: pytest.Pytester) -> None:
    check(project).assert_outcomes(passed=4)
    check(project, "-n", "2").assert_outcomes(passed=4)


@pytest.mark.full
def test_a_changed_preparer_is_reported_with_its_file(project: pytest.Pytester) -> None:
    replace(project.path / TOY / "prepare.py", "assign(odd=0)", "assign(odd=1)")
    assert_fails(project, "prepare", "public/sample_submission.csv: expected e895*, found *")


@pytest.mark.full
def test_the_first_differing_line_is_shown_if_the_golden_file_has_it(project: pytest.Pytester) -> None:
    assert main(["golden", str(project.path / TOY), "--force"]) == 0
    check(project).assert_outcomes(passed=4)
    replace(project.path / TOY / "prepare.py", "assign(odd=0)", "assign(odd=1)")
    result = check(project, "-k", "prepare")
    result.stdout.fnmatch_lines(
        [
            "public/sample_submission.csv: line 2 is the first that differs: found '*,1', expected a line that "
            "golden.json has only as a digest; 1 of * lines are as expected"
        ]
    )
    replace(project.path / TOY / "prepare.py", "assign(odd=1)", "assign(odd=0)[:7]")
    result = check(project, "-k", "prepare")
    result.stdout.fnmatch_lines(
        [
            "public/sample_submission.csv: line 9 is the first that differs: found the end, expected * more lines; "
            "* lines expected in total, 8 found"
        ]
    )


@pytest.mark.full
def test_a_changed_grader_is_reported_with_both_scores(project: pytest.Pytester) -> None:
    replace(project.path / TOY / "grade.py", "return accuracy_score", "return 0.9 * accuracy_score")
    assert_fails(project, "scores", "shuffled.csv must score 1.0; it scores 0.9")


@pytest.mark.full
@pytest.mark.parametrize(
    ("score", "message"),
    [
        ("0.5", "missing_row.csv must be invalid; it scores 0.5"),
        ("submission['odd'].sum() / 0", "text.csv must be rejected with a reason: grade.py raised TypeError: *"),
    ],
    ids=["accepts", "breaks"],
)
def test_a_grader_that_accepts_or_crashes_on_malformed_submissions_fails(
    score: str, message: str, project: pytest.Pytester
) -> None:
    (project.path / TOY / "grade.py").write_text(f"def grade(submission, answers):\n    return float({score})\n")
    assert_fails(project, "rejections", message)


@pytest.mark.full
@pytest.mark.parametrize(
    ("leak", "message"),
    [
        ("write_csv(table[80:], public / 'old.csv')", "public/old.csv is a copy of private/test.csv"),
        ("write_csv(table, public / 'all.csv')", "public/all.csv contains the true values of 'odd'"),
        (
            "write_csv(table.assign(x=1), public / 'deep/all.tsv', sep='\\t')",
            "public/deep/all.tsv contains the true values*",
        ),
    ],
)
def test_answers_in_public_files_are_found(project: pytest.Pytester, leak: str, message: str) -> None:
    prepare = project.path / TOY / "prepare.py"
    prepare.write_text(prepare.read_text() + f"    {leak}\n")
    assert_fails(project, "answers_stay_private", message)


@pytest.mark.full
def test_a_known_leak_is_reported_instead_of_failing(project: pytest.Pytester) -> None:
    config = project.path / TOY / "competition.yaml"
    config.write_text(config.read_text() + "known_leak: the ids give the answers away\n")
    result = check(project, "-k", "answers_stay_private")
    result.assert_outcomes(xfailed=1)
    result.stdout.fnmatch_lines(["*known leak: the ids give the answers away*"])


@pytest.mark.full
def test_a_missing_golden_file_error_explains_how_to_create_it(project: pytest.Pytester) -> None:
    (project.path / TOY / "golden.json").unlink()
    result = check(project)
    result.assert_outcomes(errors=4)
    result.stdout.fnmatch_lines(["*golden.json is missing: create it with `mlebench golden *"])


@pytest.mark.full
def test_a_damaged_file_of_the_prepared_data_is_named_without_a_traceback(project: pytest.Pytester) -> None:
    write = "    (private / 'more.zip').write_bytes(b'PK')\n"
    path = project.path / TOY / "prepare.py"
    path.write_text(
        f"{path.read_text()}\nfirst = prepare\ndef prepare(raw, public, private):\n"
        f"    first(raw, public, private)\n{write}"
    )
    result = check(project, "-k", "prepare")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["archive */private/more.zip is damaged: *"])
    result.stdout.no_fnmatch_line("*Traceback*")
    result.stdout.no_fnmatch_line("*def *")


@pytest.mark.full
def test_real_data_is_checked_on_request(project: pytest.Pytester) -> None:
    result = check(project, "--real-data", "-v")
    result.assert_outcomes(passed=4)
    for name in ("checksums PASSED", "sample_submission PASSED", "perfect_submission PASSED"):
        result.stdout.fnmatch_lines_random([f"*{name}*"])
    replace(project.path / TOY / "competition.yaml", "sample_submission_score: 0.5", "sample_submission_score: 0.4")
    check(project, "--real-data", "-k", "sample_submission").assert_outcomes(failed=1)


@pytest.mark.full
def test_wrong_checksums_of_real_data_are_reported(project: pytest.Pytester) -> None:
    check(project, "--real-data")  # prepares the data
    config = project.path / TOY / "competition.yaml"
    config.write_text(config.read_text() + "checksums: {private: {test.csv: 0123456789abcdef0123456789abcdef}}\n")
    assert_fails(
        project,
        "checksums",
        "private/test.csv: expected 0123456789abcdef0123456789abcdef, found 10f94463*",
        "--real-data",
    )


@pytest.mark.full
def test_a_failing_check_explains_where_to_look_and_how_to_accept(project: pytest.Pytester) -> None:
    replace(project.path / TOY / "grade.py", "return ", "return 0.9 * ")
    result = check(project, "-k", "scores")
    result.stdout.fnmatch_lines(
        [
            "<answers> must score 1.0; it scores 0.9",
            "Look at *toy-parity/grade.py. If the change is intended, accept it: mlebench golden *toy-parity",
        ]
    )


@pytest.mark.full
@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("grade.py", "score = 1\n", "*toy-parity/grade.py has no function 'grade'*"),
        ("prepare.py", "", "*toy-parity/prepare.py has no function 'prepare'*"),
        ("synthetic.py", "def make(raw, seed):\n    pass\n", "*toy-parity/synthetic.py has no function 'submissions'*"),
        (
            "synthetic.py",
            "def make(raw, seed):\n    raw / seed\n",
            "*toy-parity: synthetic.py raised TypeError: * (synthetic.py, line 2: raw / seed)*",
        ),
        (
            "prepare.py",
            "def prepare(raw, public, private):\n    return raw['x']\n",
            "*: prepare.py raised TypeError: * (prepare.py, line 2: return raw*) on the data of synthetic.py*",
        ),
        (
            "prepare.py",
            "def prepare(raw, public, private):\n    (raw / 'none.csv').read_bytes()\n",
            "*: preparation stopped: No such file or directory (*/none.csv) in prepare.py, line 2*; synthetic.py has*",
        ),
        (
            "prepare.py",
            "def prepare(raw, public, private):\n    raise SystemExit('no')\n",
            "*: prepare.py raised SystemExit: no (prepare.py, line 2: raise*) on the data of synthetic.py*",
        ),
        (
            "synthetic.py",
            "raise SystemExit(3)",
            "*synthetic.py cannot be imported: SystemExit: 3 (synthetic.py, line 1: raise SystemExit(3))",
        ),
        ("grade.py", "raise SystemExit", "*grade.py cannot be imported: SystemExit:*"),
        (
            "grade.py",
            "def grade(submission, answers):\n    return 'good'\n",
            "*: grade.py: grade returned 'good', which is not a number",
        ),
        (
            "grade.py",
            "def read_answers(path):\n    return {}['x']\n\n\ndef grade(submission, answers):\n    return 1.0\n",
            "*private/*.csv cannot be read: KeyError: 'x' (grade.py, line 2: return {}*)",
        ),
        (
            "grade.py",
            "def row_scores(table, answers):\n    return 'x'\n\n\ndef grade(submission, answers):\n    return 1.0\n",
            "*: grade.py: row_scores returned invalid row scores: *",
        ),
        (
            "grade.py",
            "READ_OPTIONS = 3\n\n\ndef grade(submission, answers):\n    return 1.0\n",
            "*grade.py: READ_OPTIONS must be a dictionary",
        ),
        ("description.md", "", "*description.md is empty: agents read the task there"),
        ("golden.json", "", "*golden.json is not valid: Expecting value: *; create it with `mlebench golden *"),
    ],
)
def test_a_broken_file_is_reported_with_its_line(project: pytest.Pytester, file: str, text: str, message: str) -> None:
    (project.path / TOY / file).write_text(text)
    result = check(project, "-k", "scores")
    result.stdout.fnmatch_lines([message])
    assert "Traceback" not in result.stdout.str() and "unpacked download" not in result.stdout.str()


@pytest.mark.full
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "*: must be a mapping of keys, for example `id: toy-parity`"),
        (b"\x80\x81", "*competition.yaml: cannot be read: it is not UTF-8 text*"),
        (b"id: toy-parity\nid: toy-parity\n", "*competition.yaml, line 2: duplicate key 'id'"),
    ],
)
def test_a_damaged_competition_file_is_reported(project: pytest.Pytester, content: bytes, message: str) -> None:
    (project.path / TOY / "competition.yaml").write_bytes(content)
    result = check(project)
    result.stdout.fnmatch_lines([message])
    assert result.ret == pytest.ExitCode.INTERRUPTED


@pytest.mark.full
def test_a_description_that_is_not_text_is_found(project: pytest.Pytester) -> None:
    (project.path / TOY / "description.md").write_bytes(b"caf\xe9")
    check(project, "-k", "prepare").stdout.fnmatch_lines(["*description.md: it is not UTF-8 text (byte 4)"])


@pytest.mark.full
def test_invalid_synthetic_submissions_are_reported(project: pytest.Pytester) -> None:
    synthetic = project.path / TOY / "synthetic.py"
    synthetic.write_text(synthetic.read_text() + "\n\ndef submissions(public, private, rng):\n    pass\n")
    result = check(project, "-k", "scores")
    result.stdout.fnmatch_lines(["*synthetic.py: submissions must return a dictionary by name, not None"])


@pytest.mark.full
def test_a_grader_that_interrupts_itself_fails_without_ending_the_session(project: pytest.Pytester) -> None:
    """It runs in a separate process, because the toy competition does not come with the package."""
    grade = project.path / TOY / "grade.py"
    grade.write_text("def grade(submission, answers):\n    raise KeyboardInterrupt\n")
    result = check(project, "-k", "scores")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.no_fnmatch_line("*INTERNALERROR*")
    assert "Traceback" not in result.stdout.str() + result.stderr.str()


@pytest.mark.full
def test_one_error_of_the_grader_is_shown_once(project: pytest.Pytester) -> None:
    grade = project.path / TOY / "grade.py"
    grade.write_text("def grade(submission, answers):\n    return answers['none'].mean()\n")
    result = check(project, "-k", "scores")
    result.stdout.fnmatch_lines(
        [
            "<answers>, <sample_submission>, all_odd.csv, and 1 more: grade.py raised KeyError: 'none' "
            "(grade.py, line 2: return answers*none*.mean())"
        ]
    )
    assert result.stdout.str().count("KeyError") == 1


@pytest.mark.full
def test_leading_zeros_that_a_preparer_drops_fail_the_gate(project: pytest.Pytester) -> None:
    folder = project.path / TOY
    replace(folder / "prepare.py", 'pd.DataFrame({"id": range(100)})', 'pd.read_csv(raw / "ids.csv")')
    replace(
        folder / "synthetic.py",
        '"""Creates nothing: prepare.py generates the competition\'s data."""',
        'pd.DataFrame({"id": [f"{number:04}" for number in range(100)]}).to_csv(raw / "ids.csv", index=False)',
    )
    assert main(["golden", str(folder), "--force"]) == 0
    result = check(project)
    result.assert_outcomes(passed=3, failed=1)
    result.stdout.fnmatch_lines(
        ["*column 'id': '0000' in the raw data became '0': leading zeros are lost*", "*read_text_csv*"]
    )
    with (folder / "competition.yaml").open("a") as file:
        file.write("exceptions: {cells_are_kept: The ids are numbers.}\n")
    check(project).assert_outcomes(passed=4)


@pytest.mark.full
def test_the_gate_requires_a_sample_submission_score_and_real_thresholds(project: pytest.Pytester) -> None:
    file = project.path / TOY / "competition.yaml"
    replace(file, "sample_submission_score: 0.5\n", "")
    result = check(project, "--real-data", "-k", "sample_submission")
    result.stdout.fnmatch_lines(
        ["*competition.yaml: the sample submission scores 0.5, * write `sample_submission_score: 0.5`"]
    )
    replace(file, "median: 0.6}", "median: 0.6, source: placeholder}\nsample_submission_score: 0.5")
    assert_fails(
        project, "sample_submission", "*the leaderboard's scores are placeholders; write your own*", "--real-data"
    )
    check(project, "-k", "scores").assert_outcomes(passed=1, warnings=1)


@pytest.mark.full
def test_answers_that_the_grader_rejects_need_a_reason(
    project: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = project.path / TOY
    replace(folder / "grade.py", 'on="id")', 'on="id", between=(0, 0.5))')
    assert main(["golden", str(folder), "--force"]) == 1
    assert "the answers (private/test.csv) as a submission are invalid: column 'odd'" in capsys.readouterr().err
    with (folder / "competition.yaml").open("a") as file:
        file.write("exceptions: {answers_are_invalid: Only guesses of at most 0.5 are asked for.}\n")
    assert main(["golden", str(folder), "--force"]) == 0
    check(project, "-k", "scores").assert_outcomes(passed=1)
