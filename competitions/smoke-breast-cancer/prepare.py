from pathlib import Path

from sklearn.datasets import load_breast_cancer

from pytest_mlebench.authoring.tables import write_competition


def prepare(raw: Path, public: Path, private: Path) -> None:
    cells = load_breast_cancer(as_frame=True).frame
    cells["malignant"] = 1 - cells.pop("target")
    cells = cells.rename(columns=lambda name: name.replace(" ", "_"))
    write_competition(cells, "malignant", 0.5, public, private)
