from pathlib import Path

from sklearn.datasets import load_digits

from pytest_mlebench.authoring.tables import write_competition


def prepare(raw: Path, public: Path, private: Path) -> None:
    digits = load_digits(as_frame=True).frame.rename(columns={"target": "digit"})
    write_competition(digits, "digit", 0, public, private)
