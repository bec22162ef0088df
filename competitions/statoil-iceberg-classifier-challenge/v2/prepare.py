from pathlib import Path
from typing import Any

from pytest_mlebench.data.authoring.corrections import hold_out_groups
from pytest_mlebench.data.authoring.files import link

from .v1 import prepare as first


def angles(images: list[dict[str, Any]]) -> list[str]:
    return [image["id"] if image["inc_angle"] == "na" else f"{image['inc_angle']} degrees" for image in images]


def prepare(raw: Path, public: Path, private: Path) -> None:
    first.prepare(raw, public, private, split=hold_out_groups(angles))
    link(private / "sample_submission.csv", public / "sample_submission.csv")
