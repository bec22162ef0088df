"""Every corrected competition: its probes find the defect in version 1's data or grades, but not in version 2's.

Both versions are prepared from raw data of version 2's ``synthetic.py``, which plants the defects.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

from pytest_mlebench.catalog import Competition, default_catalogue
from pytest_mlebench.catalog.catalogue import NOT_CORE
from pytest_mlebench.catalog.schema import thresholds_of
from pytest_mlebench.data.dataset import Dataset, replace_by_level
from pytest_mlebench.data.preparing import run_prepare
from pytest_mlebench.errors import GraderDefect, InvalidSubmission, UsageError
from pytest_mlebench.gate.leaks import find_leaks
from pytest_mlebench.grading.scorer import Scorer
from tests.v2.changes import PATH, table
from tests.v2.probes import ATTACKS, FLAWS, GRADED, GROUPS, PROBED, REFUSED, Groups, Outcome, Submission
from tools.core_split import not_core, of_area, of_correlation, of_root, of_share

CORRECTED = [competition.id for competition in default_catalogue(version="v2") if competition.changes]


@dataclass(frozen=True)
class Prepared:
    """The data and grader of one version."""

    competition: Competition
    dataset: Dataset
    scratch: Path

    def grade(self, submission: Submission) -> Outcome:
        path = self.scratch / "submission.csv"
        if isinstance(submission, pd.DataFrame):
            submission.to_csv(path, index=False)
        else:
            path.write_text(submission)
        try:
            score = Scorer(self.competition, self.dataset.answers).score(path)
        except (InvalidSubmission, GraderDefect):
            return REFUSED
        return "no score" if math.isnan(score) else float(score)

    def medal(self, submission: Submission) -> str | None:
        score = self.grade(submission)
        return None if isinstance(score, str) else self.competition.leaderboard.medal(score)


Both = tuple[Prepared, Prepared]


@pytest.fixture(params=CORRECTED)
def both(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Both]:
    second = default_catalogue(version="v2")[request.param]
    raw, spare = tmp_path / "raw", tmp_path / "spare"
    raw.mkdir()
    second.module("synthetic").make(raw, second.golden["seed"])
    found = []
    for competition in (second.of_version("v1"), second):
        scratch = tmp_path / competition.version
        dataset = Dataset(competition, scratch)
        run_prepare(competition, raw, dataset, key=b"a test" if competition.is_corrected else None)
        (spare / competition.version).mkdir(parents=True)
        for side in (dataset.public, dataset.private):  # like the data store
            replace_by_level(side, spare / competition.version)
        found.append(Prepared(competition, dataset, scratch))
    yield found[0], found[1]


@pytest.mark.full
def test_a_defect_of_the_first_version_is_not_in_the_second(both: Both) -> None:
    first, second = both
    id = second.competition.id
    for attack in ATTACKS.get(id, []):
        assert first.medal(attack(first.dataset.public)) == "gold", f"{attack.__name__} earns no gold in version 1"
        assert _attacked(second, attack) is None, f"{attack.__name__} earns a medal in version 2"
    for groups in GROUPS.get(id, []):
        assert _shared(first, groups), f"{groups.__name__}: none is on both sides in version 1"
        assert not _shared(second, groups), f"{groups.__name__}: some are on both sides in version 2"
    for graded in GRADED.get(id, []):
        was, now = (version.grade(graded.make(version.dataset)) for version in both)
        assert was != now, f"{graded.name}: {now} in both versions"
        for found, expected in ((was, graded.was), (now, graded.now)):
            same = found == expected if isinstance(expected, str) else found == pytest.approx(expected)
            assert expected is None or same, f"{graded.name}: {was} and {now}"
    for flaw in FLAWS.get(id, []):
        assert flaw(first.dataset), f"{flaw.__name__}: version 1 does not have the defect"
        assert not flaw(second.dataset), flaw(second.dataset)
    assert not find_leaks(second.dataset)
    _require_strict(second)


def _require_strict(second: Prepared) -> None:
    """Check that the sample submission earns no medal, and that the grader matches ids and rejects wrong rows."""
    sample = second.dataset.sample_submission.read_text()
    assert second.medal(sample) is None, "the sample submission earns a medal"
    text = pd.read_csv(second.dataset.perfect_submission, dtype=str, keep_default_na=False)
    perfect = second.grade(text)
    assert second.grade(text[::-1]) == pytest.approx(perfect), "another order of the rows changes the score"
    wrong_rows = {
        "a missing row": text[1:],
        "a surplus row": pd.concat([text, text.tail(1)]),
        "a row twice in another's place": pd.concat([text[1:], text.tail(1)]) if len(text) > 1 else text[1:],
    }
    for name, wrong in wrong_rows.items():
        assert second.grade(wrong) == REFUSED, f"{name} is not rejected"


def _attacked(prepared: Prepared, attack: Callable[[Path], Submission]) -> str | None:
    try:
        submission = attack(prepared.dataset.public)
    except (KeyError, FileNotFoundError, StopIteration, ValueError):  # the data that it reads is no longer there
        return None
    return prepared.medal(submission)


def _shared(prepared: Prepared, groups: Callable[[Dataset], Groups]) -> set[Any]:
    train, test = (set(side) for side in groups(prepared.dataset))
    assert train and test, f"{groups.__name__}: no group on one side"
    return train & test


def test_every_line_of_changes_has_a_probe() -> None:
    of_id = {own.id: {*range(1, len(own.changes) + 1)} for own in default_catalogue(version="v2") if own.changes}
    assert {id: set(lines) for id, lines in PROBED.items()} == of_id


def test_core_excludes_contaminated_competitions_and_those_with_uncertain_medals() -> None:
    catalogue = default_catalogue(version="v2")
    core, everything = ({competition.id for competition in catalogue.split(name)} for name in ("core", "all"))
    contaminated = {competition.id for competition in catalogue.split("all") if competition.contaminated}
    assert len(everything) == 75 and contaminated and NOT_CORE.keys() <= everything
    assert core == everything - NOT_CORE.keys() - contaminated
    assert not core & {"aerial-cactus-identification", "learning-agency-lab-automated-essay-scoring-2"}
    with pytest.raises(UsageError, match="add --bench-version=2"):
        default_catalogue().split("core")


def test_core_follows_from_the_sampling_errors() -> None:
    assert not_core() == NOT_CORE, "run python -m tools.core_split, and copy its lines to NOT_CORE"


@pytest.mark.full
def test_sampling_errors_match_resampled_scores() -> None:
    """Resamples many submissions with a given score on test sets of a given size."""
    rng, n = np.random.default_rng(0), 400
    truth = rng.random((2000, n)) < 0.3
    shown = truth + rng.normal(0, 0.8, truth.shape)
    areas = [roc_auc_score(*rows) for rows in zip(truth, shown, strict=True)]
    assert of_area(float(np.mean(areas)), n, int(0.3 * n)) == pytest.approx(np.std(areas), rel=0.15)
    hits = (rng.random((2000, n)) < 0.9).mean(axis=1)
    assert of_share(0.9, n) == pytest.approx(np.std(hits), rel=0.1)
    roots = np.sqrt((rng.normal(0, 3, (2000, n)) ** 2).mean(axis=1))
    assert of_root(3, n) == pytest.approx(np.std(roots), rel=0.1)
    pairs = rng.multivariate_normal([0, 0], [[1, 0.8], [0.8, 1]], (2000, n))
    correlations = [np.corrcoef(rows.T)[0, 1] for rows in pairs]
    assert of_correlation(0.8, n) == pytest.approx(np.std(correlations), rel=0.1)


CORPORA = {
    "aerial-cactus-identification": "columnar cact",
    "billion-word-imputation": "Billion Word",
    "denoising-dirty-documents": "NoisyOffice",
    "detecting-insults-in-social-commentary": "Kaggle published the test labels",
    "dog-breed-identification": "Stanford Dogs",
    "facebook-recruiting-iii-keyword-extraction": "Stack Exchange",
    "freesound-audio-tagging-2019": "Zenodo",
    "histopathologic-cancer-detection": "PatchCamelyon|PCam",
    "jigsaw-unintended-bias-in-toxicity-classification": "Civil Comments",
    "ml2021spring-hw2": "TIMIT",
    "movie-review-sentiment-analysis-kernels-only": "Sentiment Treebank|Rotten Tomatoes",
    "plant-seedlings-classification": "plant seedlings",
    "spooky-author-identification": "public-domain",
    "tensorflow-speech-recognition-challenge": "Speech Commands",
    "tensorflow2-question-answering": "Natural Questions",
}
"""Public corpora with labels on which competitions are based, by competition."""


def test_competitions_from_public_corpora_are_contaminated_in_both_versions() -> None:
    for version in ("v1", "v2"):
        own = {competition.id: competition for competition in default_catalogue(version=version)}
        assert {id for id, competition in own.items() if competition.contaminated} == CORPORA.keys()
        for id, corpus in CORPORA.items():
            assert re.search(corpus, own[id].contaminated), id


def test_a_competition_whose_description_names_a_public_corpus_is_contaminated() -> None:
    named = re.compile("|".join(corpus for corpus in CORPORA.values() if corpus != "Stack Exchange"))
    for competition in default_catalogue(version="v2"):
        texts = [competition.folder / "description.md", competition.description]
        if any(named.search(path.read_text(encoding="utf-8")) for path in texts):
            assert competition.contaminated, f"{competition.id} is based on a public corpus"


def test_thresholds_apply_only_if_the_test_set_is_kaggles() -> None:
    second = {own.id: own for own in default_catalogue(version="v2")}
    assert all(own.thresholds == thresholds_of(own.differences) for own in second.values())
    indicative = {id for id, own in second.items() if own.thresholds == "indicative"}
    assert indicative >= {
        "hms-harmful-brain-activity-classification",
        "tensorflow2-question-answering",
        "vinbigdata-chest-xray-abnormalities-detection",
    }
    assert second["histopathologic-cancer-detection"].thresholds != "apply"


def test_the_table_of_changes_matches_the_folders() -> None:
    assert PATH.read_text(encoding="utf-8") == table(), "regenerate it: python -m tests.v2.changes"


def test_prepare_and_make_have_the_documented_parameters_in_both_versions() -> None:
    for version in ("v1", "v2"):
        for competition in default_catalogue(version=version):
            prepare, make = competition.function("prepare", "prepare"), competition.function("synthetic", "make")
            assert [*signature(prepare).parameters] == ["raw", "public", "private"], (competition.id, version)
            assert [*signature(make).parameters] == ["raw", "seed"], (competition.id, version)


def test_relative_imports_of_every_version_resolve_to_files() -> None:
    for competition in default_catalogue(version="v2"):
        for path in competition.folder.rglob("*.py"):
            for found in ast.walk(ast.parse(path.read_bytes())):
                if isinstance(found, ast.ImportFrom) and found.level:
                    folder = path.parents[found.level - 1]
                    names = [found.module] if found.module else [alias.name for alias in found.names]
                    assert all((folder / f"{name.replace('.', '/')}.py").is_file() for name in names), (
                        f"{path}, line {found.lineno}"
                    )
