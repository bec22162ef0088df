from pathlib import Path

from pytest_mlebench.authoring.text_normalization import prepare_text_normalization


def prepare(raw: Path, public: Path, private: Path) -> None:
    prepare_text_normalization(raw, public, private, language="en")
