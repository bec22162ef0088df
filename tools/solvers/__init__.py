"""Solvers for some families of twins. A solver knows the kind of problem, but not how the twin was generated.

python -m tools.solvers ID PUBLIC SUBMISSION

Each reads the public files of the competition that represents its family, and returns a submission. Features and
models are a natural choice after reading the description; everything that depends on the seed is learned from the
files. The gap between a solver and the bundled baseline shows how much a general-purpose agent misses.
"""

from collections.abc import Callable
from pathlib import Path

import pandas as pd

from . import pictures, series, tables, texts

SOLVERS: dict[str, Callable[[Path], pd.DataFrame]] = {
    "AI4Code": texts.order,
    "chaii-hindi-and-tamil-question-answering": texts.answers,
    "freesound-audio-tagging-2019": series.tags,
    "h-and-m-personalized-fashion-recommendations": tables.fashion,
    "kuzushiji-recognition": pictures.characters,
    "new-york-city-taxi-fare-prediction": tables.fares,
    "nfl-player-contact-detection": tables.contacts,
    "osic-pulmonary-fibrosis-progression": pictures.lungs,
    "playground-series-s3e18": tables.enzymes,
    "smartphone-decimeter-2022": series.positions,
    "spaceship-titanic": tables.passengers,
    "stanford-covid-vaccine": series.degradation,
    "us-patent-phrase-to-phrase-matching": texts.likenesses,
    "ventilator-pressure-prediction": series.breaths,
    "vinbigdata-chest-xray-abnormalities-detection": pictures.findings,
    "whale-categorization-playground": pictures.whales,
}
