from pathlib import Path

from sklearn.datasets import load_diabetes

from pytest_mlebench.authoring.tables import write_competition

SERUM = {"s1": "tc", "s2": "ldl", "s3": "hdl", "s4": "tch", "s5": "ltg", "s6": "glu"}


def prepare(raw: Path, public: Path, private: Path) -> None:
    # Unscaled, because scikit-learn's scaling also depends on the held-out rows.
    patients = load_diabetes(scaled=False, as_frame=True).frame.rename(columns={**SERUM, "target": "progression"})
    write_competition(patients, "progression", 150.0, public, private)
