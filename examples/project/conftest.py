import pandas as pd
import pytest


@pytest.fixture
def mean_submission(dataset, tmp_path):
    """A submission that predicts the mean of the training data."""
    target = pd.read_csv(dataset.sample_submission).columns[-1]
    mean = pd.read_csv(dataset.public / "train.csv")[target].mean()
    path = tmp_path / "submission.csv"
    pd.read_csv(dataset.sample_submission).assign(**{target: mean}).to_csv(path, index=False)
    return path
