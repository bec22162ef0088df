"""The screenshots in the documentation exist, are small, and can be recreated."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from PIL import Image

from tools.pictures import IMAGES, MOST_BYTES, PAGES, TERMINALS, main


def test_screenshots_are_small_and_load_no_other_files() -> None:
    expected = {f"{name}{suffix}.png" for name in PAGES for suffix in ("", "-dark")} | {f"{n}.svg" for n in TERMINALS}
    assert {path.name for path in IMAGES.glob("[rtv]*")} == expected
    for path in IMAGES.glob("[rtv]*"):
        assert path.stat().st_size <= MOST_BYTES, path.name
        if path.suffix == ".svg":
            text = path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
            assert not re.search(r"https?:|<script|@import|url\((?!#)", text), path.name


@pytest.mark.full
@pytest.mark.browser
def test_screenshots_are_created_from_runs(tmp_path: Path) -> None:
    """Creates two pages, whose parts are checked, and a terminal session, for one competition and seed."""
    if not shutil.which("chromium"):
        pytest.skip("no chromium here")
    wanted = [f"--only={name}" for name in ("view-run", "view-trajectory")]
    main([*wanted, "-k=digits", "--seeds=1", f"--output={tmp_path / 'images'}", f"--keep={tmp_path / 'work'}"])
    made = sorted(path.name for path in (tmp_path / "images").iterdir())
    assert made == ["view-run-dark.png", "view-run.png", "view-trajectory-dark.png", "view-trajectory.png"]
    for path in (tmp_path / "images").iterdir():
        with Image.open(path) as picture:
            assert picture.width >= 1200 and picture.height >= 800
            darkness = picture.convert("L").resize((1, 1)).getpixel((0, 0))
            assert isinstance(darkness, int) and (darkness < 90) == ("dark" in path.name), path.name
