"""Predicting answers from metadata of data packed class by class. ``tools/attack_metadata.py`` tests everything."""

from __future__ import annotations

import pytest
from scipy.stats import combine_pvalues

from pytest_mlebench.catalog import default_catalogue
from pytest_mlebench.gate.metadata import ORDER
from tests.sandbox.conftest import require_docker
from tools.attack_metadata import attacked

IDS = ["alaska2-image-steganalysis", "dogs-vs-cats-redux-kernels-edition", "paddy-disease-classification"]
IMAGE = "debian:bookworm-slim"
pytestmark = pytest.mark.full


def combined(version: str, *, image: str | None = None, spoiled: bool = False) -> float:
    """Combined p-value of the attacks with times, inodes, modes and order."""
    catalogue = default_catalogue(version=version)
    found = [result for id in IDS for result in attacked(catalogue[id], image, spoiled=spoiled)]
    return float(combine_pvalues([result.p for result in found if result.kind == ORDER]).pvalue)


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_metadata_of_prepared_data_reveals_nothing(version: str) -> None:
    assert combined(version) > 0.01


def test_the_attacker_succeeds_if_files_are_ordered_by_label() -> None:
    assert combined("v1", spoiled=True) < 1e-4


@pytest.mark.docker
def test_metadata_in_a_container_reveals_nothing() -> None:
    require_docker()
    assert combined("v1", image=IMAGE) > 0.01
    assert combined("v1", image=IMAGE, spoiled=True) < 1e-4
