from pathlib import Path

from pytest_mlebench.authoring.text_normalization import prepare_corrected


def prepare(raw: Path, public: Path, private: Path) -> None:
    prepare_corrected(raw, public, private, language="en")
