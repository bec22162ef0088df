from pathlib import Path

from PIL import Image

from pytest_mlebench.authoring.archives import open_member, open_zip
from pytest_mlebench.authoring.corrections import hold_out_groups

from .. import prepare as first


def prepare(raw: Path, public: Path, private: Path) -> None:
    split = hold_out_groups(lambda pages: [_clean(raw, page) for page in pages])
    train, test = split(first.pages(raw), test_size=0.2)
    first.write_sides(train, test, raw, public, private)


def _clean(raw: Path, page: str) -> tuple[tuple[int, int], bytes]:
    """Return the size and the grey values of the page without noise."""
    with (
        open_zip(raw / "train_cleaned.zip") as archive,
        open_member(archive, f"train_cleaned/{page}") as file,
        Image.open(file) as image,
    ):
        return image.size, image.convert("L").tobytes()
