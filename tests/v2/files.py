"""Files: what is missing, superfluous or in another form in the prepared data."""

from __future__ import annotations

import pandas as pd

from pytest_mlebench.data.dataset import Dataset
from tests.v2.probes import flaw


@flaw("movie-review-sentiment-analysis-kernels-only")
def phrases_that_became_empty(dataset: Dataset) -> str:
    phrases = pd.concat(
        pd.read_csv(dataset.public / f"{side}.tsv.zip", sep="\t", keep_default_na=False) for side in ("train", "test")
    )
    return f"{sum(phrases['Phrase'] == '')} phrases are empty" if (phrases["Phrase"] == "").any() else ""


@flaw("champs-scalar-coupling")
def test_molecules_without_a_structure(dataset: Dataset) -> str:
    molecules = set(pd.read_csv(dataset.public / "test.csv")["molecule_name"])
    tables = set(pd.read_csv(dataset.public / "structures.csv")["molecule_name"])
    files = {path.stem for path in (dataset.public / "structures").glob("*.xyz")}
    return ", ".join(sorted(molecules - (tables & files)))


@flaw("tgs-salt-identification-challenge")
def test_images_without_a_depth(dataset: Dataset) -> str:
    depths = set(pd.read_csv(dataset.public / "depths.csv")["id"])
    return ", ".join(sorted(set(pd.read_csv(dataset.public / "sample_submission.csv")["id"]) - depths))


@flaw("new-york-city-taxi-fare-prediction")
def a_leaflet_and_no_train_csv(dataset: Dataset) -> str:
    names = {path.name for path in dataset.public.iterdir()}
    return ", ".join(sorted(name for name in names if name.endswith(".rtf") or name == "labels.csv"))


@flaw("iwildcam-2019-fgvc6")
def a_column_without_a_name(dataset: Dataset) -> str:
    columns = pd.read_csv(dataset.sample_submission).columns
    return ", ".join(name for name in columns if name.startswith("Unnamed"))


@flaw("invasive-species-monitoring")
def images_that_are_not_there(dataset: Dataset) -> str:
    names = pd.read_csv(dataset.sample_submission)["name"]
    return ", ".join(f"{name}.jpg" for name in names if not (dataset.public / "test" / f"{name}.jpg").exists())
