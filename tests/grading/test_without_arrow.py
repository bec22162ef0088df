"""Grading without Arrow, which is optional: the same results, and a one-line error if data needs it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_mlebench.authoring import columns, ids
from pytest_mlebench.authoring.metrics import multilabel
from pytest_mlebench.catalog import default_catalogue
from pytest_mlebench.data.download.kaggle import KaggleDownloads
from pytest_mlebench.data.store import DataStore
from pytest_mlebench.errors import CompetitionError, DataError, InvalidSubmission

ROOT = Path(__file__).parents[2]
NEEDS_IT = "icecube-neutrinos-in-deep-ice"
WITHOUT = """
import sys
from importlib.machinery import PathFinder
find = PathFinder.find_spec
class WithoutArrow:
    def __call__(self, name, *rest):
        return None if name == "pyarrow" else find(name, *rest)
PathFinder.find_spec = WithoutArrow()  # not a function, which would become a method where pytest stores it
import pytest
sys.exit(pytest.main(sys.argv[1:]))
"""
IDS = st.lists(st.text("ab1é \x1c", max_size=3), min_size=1, max_size=12)
LABELS = st.lists(st.text("ab \té\x1c ", max_size=8), min_size=6, max_size=6)


@contextmanager
def without_arrow() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        for module in (columns, ids, multilabel):
            patched.setattr(module, "pa", None)
        yield


def pairing(found: list[str], wanted: list[str], storage: Any) -> Any:
    dtype = pd.StringDtype(storage, na_value=np.nan)
    submission, answers = (pd.DataFrame({"id": pd.Series(values, dtype=dtype)}) for values in (found, wanted))
    try:
        return ids.alignment(submission, answers, "id").tolist()
    except InvalidSubmission as error:
        return str(error)


@given(IDS, st.randoms(use_true_random=False), st.lists(st.text("ab", max_size=2), max_size=2))
def test_text_ids_are_paired_alike(wanted: list[str], random: Any, others: list[str]) -> None:
    wanted = list(dict.fromkeys(wanted))
    found = random.sample(wanted + others, len(wanted))
    by_arrow = pairing(found, wanted, "pyarrow")
    with without_arrow():
        assert pairing(found, wanted, "python") == pairing(found, wanted, "pyarrow") == by_arrow


@given(LABELS, LABELS, st.booleans())
def test_sets_of_labels_score_alike(true: list[str], predicted: list[str], ignore_unseen: bool) -> None:
    score = multilabel.f1_micro_of_texts(true, predicted, ignore_unseen=ignore_unseen)
    with without_arrow():
        assert multilabel.f1_micro_of_texts(true, predicted, ignore_unseen=ignore_unseen) == score


@given(st.lists(st.one_of(st.floats().map(str), st.sampled_from(["1_000", "nan(1)", " 1", "1e400", "0x1", "x"]))))
def test_numbers_in_text_are_read_alike(texts: list[str]) -> None:
    texts = [*texts, *["0.1"] * 1001]

    def numbers() -> Any:
        try:
            return columns.to_floats(texts).tobytes()
        except ValueError as error:
            return str(error)

    by_arrow = numbers()
    with without_arrow():
        assert numbers() == by_arrow


def test_missing_packages_are_reported_before_any_download(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_mlebench.catalog.competition.find_spec", lambda name: None)
    competitions = [default_catalogue()[id] for id in (NEEDS_IT, "hms-harmful-brain-activity-classification")]
    with pytest.raises(DataError, match=rf"^{NEEDS_IT}: .* pip install 'pytest-mlebench\[parquet\]'\nhms-.*\]'$"):
        DataStore(tmp_path).check_all(competitions, KaggleDownloads())
    with pytest.raises(CompetitionError, match=r"run: pip install 'pytest-mlebench\[parquet\]'$"):
        DataStore(tmp_path).prepare(competitions[0], downloads=KaggleDownloads())


@pytest.mark.full
def test_the_gate_works_without_arrow_and_reports_data_that_needs_it(tmp_path: Path) -> None:
    known = ("plant-pathology-2021-fgvc8", "kuzushiji-recognition", "siim-covid19-detection", "AI4Code")
    paths = [f"competitions/{id}" for id in (*known, NEEDS_IT)]
    command = [sys.executable, "-c", WITHOUT, *paths, "-q", "-pno:cacheprovider", f"--basetemp={tmp_path / 'data'}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    line = f"{NEEDS_IT}: its data cannot be prepared without pyarrow; run: pip install 'pytest-mlebench[parquet]'"
    failed = [entry for entry in done.stdout.splitlines() if entry.startswith("ERROR competitions/")]
    assert failed and all(f"competitions/{NEEDS_IT}/" in entry for entry in failed), done.stdout
    assert done.stdout.splitlines().count(line) == len(failed) and "Traceback" not in done.stdout, done.stdout
