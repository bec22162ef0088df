"""Files and keys of a competition's second version override the common ones."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from pytest_mlebench.catalog import Competition
from pytest_mlebench.catalog.competition import split_and_version, split_label
from pytest_mlebench.errors import CompetitionError

TOY = Path(__file__).parents[1] / "toys/competitions/toy-parity"
CHANGES = "changes: [rows are matched]\nthresholds: apply\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = Path(shutil.copytree(TOY, tmp_path / "toy-parity"))
    (folder / "v2").mkdir()
    (folder / "v2/competition.yaml").write_text(CHANGES)
    return folder


def test_keys_are_overridden_and_the_others_inherited(folder: Path) -> None:
    (folder / "v2/competition.yaml").write_text(CHANGES + "metric: f1\ncontaminated: the answers are public\n")
    first, second = Competition.load(folder), Competition.load(folder, version="v2")
    assert (first.metric, second.metric, second.title) == ("accuracy", "f1", first.title)
    assert second.leaderboard == first.leaderboard
    assert (second.changes, second.thresholds) == (("rows are matched",), "apply")
    assert second.contaminated and not first.contaminated
    assert first.versions == ("v1", "v2") and first.of_version("v2").changes == second.changes


def test_checksums_issues_and_leaks_of_the_first_version_are_not_inherited(folder: Path) -> None:
    digest = "0" * 32
    with (folder / "competition.yaml").open("a") as file:
        file.write(
            f"known_issues: [one]\nknown_leak: a leak\nchecksums: {{zip: '{digest}', public: {{a: '{digest}'}}}}\n"
        )
    first, second = Competition.load(folder), Competition.load(folder, version="v2")
    assert first.known_issues and first.known_leak and first.checksums.keys() == {"zip", "public"}
    assert not second.known_issues and not second.known_leak and dict(second.checksums) == {"zip": digest}
    assert first.sample_submission_score == 0.5 and second.sample_submission_score is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("thresholds: apply\n", "changes: is missing: list what was corrected, or known_issues that remain"),
        ("changes: [one]\n", "thresholds: is missing"),
        ("- changes\n", "must be a mapping of keys"),
        (CHANGES + "metrik: f1\n", "unknown key 'metrik'; did you mean metric"),
        (CHANGES.replace("apply", "perhaps"), "thresholds: expected 'apply' or 'with care' or 'indicative'"),
        (CHANGES.replace("apply", "with care"), "thresholds: expected 'apply' with no differences, found 'with care'"),
        (
            CHANGES + "differences: {harder: Alike photos are kept together}\n",
            "thresholds: expected 'with care' with differences in harder, found 'apply'",
        ),
        (
            CHANGES.replace("apply", "with care") + "differences: {harder: More classes, easier: The same speakers}\n",
            "thresholds: expected 'indicative' with differences in harder and easier, found 'with care'",
        ),
        (CHANGES + "differences: {seize: The test is small}\n", "differences: unknown key 'seize'"),
    ],
)
def test_an_error_names_the_later_versions_file(folder: Path, text: str, message: str) -> None:
    (folder / "v2/competition.yaml").write_text(text)
    with pytest.raises(CompetitionError, match=message) as raised:
        Competition.load(folder, version="v2")
    assert str(raised.value).startswith(str(folder / "v2/competition.yaml"))
    assert Competition.load(folder).changes == ()


def test_a_version_without_changes_can_list_known_issues(folder: Path) -> None:
    (folder / "v2/competition.yaml").write_text(
        "known_issues: [a crowded leaderboard]\nthresholds: with care\ndifferences: {noisier: few rows}\n"
    )
    second = Competition.load(folder, version="v2")
    assert second.is_corrected and not second.changes and second.known_issues == ("a crowded leaderboard",)


def test_its_files_can_import_the_first_versions(folder: Path) -> None:
    (folder / "v2/grade.py").write_text(
        "from .. import grade as first\n\n\ndef grade(submission, answers):\n"
        "    return 2 * first.grade(submission, answers)\n"
    )
    first, second = Competition.load(folder), Competition.load(folder, version="v2")
    assert second.module("grade").first is first.module("grade") is not second.module("grade")
    assert {path.relative_to(folder).as_posix() for path in second.files} >= {"grade.py", "v2/grade.py"}
    assert not any("v2" in path.parts for path in first.files)


def test_a_folder_without_a_second_version_is_the_same_in_both() -> None:
    second = Competition.load(TOY, version="v2")
    assert not second.is_corrected and second.versions == ("v1",)
    assert second.checksums == Competition.load(TOY).checksums


def test_a_later_versions_folder_is_not_a_competition(folder: Path) -> None:
    text = (folder / "competition.yaml").read_text()
    (folder / "v2/competition.yaml").write_text(CHANGES + text[text.index("leaderboard:") :])
    assert Competition.is_ours(folder) and not Competition.is_ours(folder / "v2")


def test_split_names_in_results_include_a_later_version() -> None:
    assert [split_label("low", version) for version in ("v1", "v2")] == ["low", "low v2"]
    for split in ("low", "my own split", "v2"):
        for version in ("v1", "v2"):
            assert split_and_version(split_label(split, version)) == (split, version)
