"""Scores are rounded like the reference's: they are ``np.float64`` in the same cases."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pytest_mlebench.catalog import default_catalogue
from pytest_mlebench.data.store import DataStore
from pytest_mlebench.grading.scorer import Scorer
from tests.extent import one_in

CATALOGUE = default_catalogue()
OF_NUMPY = {
    "alaska2-image-steganalysis",
    "billion-word-imputation",
    "bms-molecular-translation",
    "champs-scalar-coupling",
    "freesound-audio-tagging-2019",
    "google-quest-challenge",
    "google-research-identify-contrails-reduce-global-warming",
    "h-and-m-personalized-fashion-recommendations",
    "hms-harmful-brain-activity-classification",
    "hotel-id-2021-fgvc8",
    "hubmap-kidney-segmentation",
    "icecube-neutrinos-in-deep-ice",
    "jigsaw-unintended-bias-in-toxicity-classification",
    "nomad2018-predict-transparent-conductors",
    "osic-pulmonary-fibrosis-progression",
    "rsna-2022-cervical-spine-fracture-detection",
    "rsna-breast-cancer-detection",
    "siim-covid19-detection",
    "smartphone-decimeter-2022",
    "stanford-covid-vaccine",
    "tgs-salt-identification-challenge",
    "tweet-sentiment-extraction",
    "us-patent-phrase-to-phrase-matching",
    "uw-madison-gi-tract-image-segmentation",
    "vesuvius-challenge-ink-detection",
    "vinbigdata-chest-xray-abnormalities-detection",
    "whale-categorization-playground",
}


@pytest.mark.full
@pytest.mark.parametrize("competition_id", one_in(3, CATALOGUE.ids))
def test_the_score_has_the_type_of_the_references(competition_id: str, tmp_path: Path) -> None:
    competition = CATALOGUE[competition_id]
    dataset = DataStore(tmp_path).prepare(competition, synthetic=1)
    score = Scorer(competition, dataset.answers).score(dataset.perfect_submission)
    assert isinstance(score, np.float64) == (competition_id in OF_NUMPY)
