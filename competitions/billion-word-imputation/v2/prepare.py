from pathlib import Path

from pytest_mlebench.authoring.corrections import private_generator
from pytest_mlebench.authoring.files import link

from .. import prepare as first


def prepare(raw: Path, public: Path, private: Path) -> None:
    first.write_sides(private_generator("sentences"), raw, public, private)
    link(private / "sample_submission.csv", public / "sample_submission.csv")
