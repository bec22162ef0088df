"""Obfuscated descriptions explain a competition's task, data, metric and format, but do not identify it."""

from __future__ import annotations

import csv
import io
import re
import zipfile
from pathlib import Path

import pytest

from pytest_mlebench.catalog import Competition, default_catalogue
from pytest_mlebench.data.store import DataStore
from tests.competitions.telltales import OF_ALL, TELLTALES

CATALOGUE, CORRECTED = default_catalogue(), default_catalogue(version="v2")
VERSIONS = [*CATALOGUE, *(competition for competition in CORRECTED if competition.is_corrected)]
OWN_TEXT = [one for one in CORRECTED if (one.folder / "v2/description.md").exists()]
"""Second versions with their own usual description, so that they need their own obfuscated one."""
EVERY = pytest.mark.parametrize("competition", VERSIONS, ids=lambda one: f"{one.id}-{one.version}")
CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)


def text_of(competition: Competition) -> str:
    return competition.obfuscated_description.read_text(encoding="utf-8")


def given_away(competition: Competition, text: str) -> list[str]:
    """Words in a text that reveal the competition. Code is ignored, because it contains names from the data."""
    names = {competition.id, competition.title, competition.url.rpartition("/")[2]}
    found = [name for name in names if name.lower() in text.lower()]
    prose = CODE.sub(" ", text).lower()
    found += [word for word in (*OF_ALL, *TELLTALES[competition.id]) if re.search(rf"\b{word}", prose)]
    data = " ".join([*competition.golden["public"], *CODE.findall(competition.description.read_text("utf-8"))]).lower()
    for code in CODE.findall(text):
        for word in (*OF_ALL, *TELLTALES[competition.id]):
            found += [hit for hit in re.findall(rf"\b{word}\w*", code.lower()) if hit not in data]
    return found


def test_every_competition_has_its_telltales() -> None:
    assert sorted(TELLTALES) == sorted(CATALOGUE.ids)


@pytest.mark.parametrize("id", ["spaceship-titanic", "random-acts-of-pizza", "siim-isic-melanoma-classification"])
def test_the_usual_descriptions_reveal_competitions(id: str) -> None:
    assert given_away(CATALOGUE[id], CATALOGUE[id].description.read_text(encoding="utf-8"))


@EVERY
def test_it_does_not_reveal_the_competition(competition: Competition) -> None:
    assert given_away(competition, text_of(competition)) == []


@EVERY
def test_it_has_everything_that_the_task_requires(competition: Competition) -> None:
    text = text_of(competition)
    assert re.findall(r"(?m)^## (.*)$", text) == ["Task", "Data", "Metric", "Submission"]
    metric = text.partition("## Metric")[2].partition("## Submission")[0].lower()
    right, wrong = ("higher", "lower") if competition.direction == "higher" else ("lower", "higher")
    assert f"{right} is better" in metric and f"{wrong} is better" not in metric
    assert 100 <= len(CODE.sub(lambda code: code[0].split(",")[0], text).split()) <= 330
    example = text.partition("## Submission")[2].split("```")[1].strip().splitlines()
    assert len(example) >= 2, "a header and a row"


@EVERY
def test_it_names_every_public_file(competition: Competition) -> None:
    text = text_of(competition)
    top = {name.partition("/")[0] + ("/" if "/" in name else "") for name in competition.golden["public"]}
    assert sorted(name for name in top if name not in text) == []


@pytest.mark.full
@EVERY
def test_it_names_the_columns_of_a_submission(competition: Competition, tmp_path: Path) -> None:
    dataset = DataStore(tmp_path).prepare(competition, synthetic=1)
    columns = _header(dataset.sample_submission)
    example = text_of(competition).partition("## Submission")[2]
    named = columns if len(columns) < 20 else columns[:2]  # of many classes, the first is enough
    assert [column for column in named if column and column not in example] == []


def _header(path: Path) -> list[str]:
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            (name,) = archive.namelist()
            text = archive.read(name).decode()
    elif path.suffix == ".7z":
        import py7zr

        with py7zr.SevenZipFile(path) as packed:
            packed.extractall(path.parent / "unpacked")
        (file,) = (path.parent / "unpacked").iterdir()
        text = file.read_text()
    else:
        text = path.read_text(encoding="utf-8")
    return next(csv.reader(io.StringIO(text)))


@pytest.mark.parametrize("competition", OWN_TEXT, ids=lambda one: one.id)
def test_the_second_version_has_its_own_text_if_its_usual_one_differs(competition: Competition) -> None:
    assert competition.obfuscated_description.parent.name == "v2"
    assert text_of(competition) != text_of(CATALOGUE[competition.id])
