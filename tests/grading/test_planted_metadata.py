"""The search for leaks finds all kinds of metadata that reveal most answers, in every family of data.

Each kind is planted by label, after a tenth of the labels are redrawn, so that no file's metadata is a sure sign.
"""

from __future__ import annotations

import io
import os
import wave
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image, PngImagePlugin

from pytest_mlebench.catalog import Competition
from pytest_mlebench.data.dataset import Dataset, replace_by_level
from pytest_mlebench.gate.leaks import find_leaks
from pytest_mlebench.gate.public_files import PublicFile, entries

YAML = """\
id: toy-{family}
title: Toy
split: own
category: Tabular
metric: accuracy
direction: higher
leaderboard: {{teams: 100, gold: 0.9, silver: 0.8, bronze: 0.7, median: 0.6}}
"""
FILES, TRUE_SHARE = 160, 0.9


@dataclass
class World:
    """The test files of a toy competition by id, and the classes that metadata should reveal."""

    family: str
    dataset: Dataset
    rng: np.random.Generator
    answers: pd.DataFrame
    told: dict[str, int]
    """The class of each id, 0 or 1; a tenth of them are redrawn."""
    noted: dict[str, dict[str, str]] = field(default_factory=dict)
    """The file system's metadata of the files, by name."""

    @property
    def folder(self) -> Path:
        return self.dataset.public / "test"

    @property
    def in_order(self) -> list[str]:
        """The ids, class by class."""
        return sorted(self.told, key=lambda id: (self.told[id], self.rng.random()))

    def path(self, id: str) -> Path:
        return self.folder / f"{id}.{SUFFIXES[self.family]}"

    def content(self, *, size: int = 40, header: int | None = None) -> bytes:
        return MAKERS[self.family](self.rng, size, header)

    def write_all(self, content: Callable[[str], bytes] | None = None) -> None:
        self.folder.mkdir(exist_ok=True)
        for id in sorted(self.told, key=lambda _: self.rng.random()):
            self.path(id).write_bytes(self.content() if content is None else content(id))
            os.utime(self.path(id), ns=(0, 0))

    def opened(self, max_total: int = 1 << 30) -> list[PublicFile]:
        """The public files, with the given metadata of the file system."""
        return [
            replace(entry, noted=tuple({**dict(entry.noted), **self.noted.get(entry.name, {})}.items()))
            for entry in entries(self.dataset.public, max_total)
        ]

    def note(self, what: str, values: dict[str, int]) -> None:
        self.write_all()
        for id, value in values.items():
            self.noted[self.path(id).relative_to(self.dataset.public).as_posix()] = {what: str(value)}


def a_table(rng: np.random.Generator, size: int, header: int | None) -> bytes:
    rows = "\n".join(f"{a:.3f},{b:.3f}" for a, b in rng.random((size, 2)))
    return f"{'time' if header else 'tame'},sensor\n{rows}\n".encode()


def an_image(rng: np.random.Generator, size: int, header: int | None, *, most: int = 256) -> bytes:
    file, said = io.BytesIO(), PngImagePlugin.PngInfo()
    if header is not None:
        said.add_text("Software", ("left", "right")[header])
    Image.fromarray(rng.integers(0, most, (size // 4, 16), dtype=np.uint8)).save(file, "PNG", pnginfo=said)
    return file.getvalue()


def a_picture_with_few_shades(rng: np.random.Generator, size: int, header: int | None) -> bytes:
    return an_image(rng, size, header, most=4)


def a_text(rng: np.random.Generator, size: int, header: int | None) -> bytes:
    words = " ".join("".join(rng.choice(list("abcdefgh"), 4)) for _ in range(size))
    return (b"\xef\xbb\xbf" if header else b"") + words.encode()


def a_sound(rng: np.random.Generator, size: int, header: int | None) -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setparams((1, 2, 8000 + 1000 * (header or 0), 0, "NONE", ""))
        sound.writeframes(rng.bytes(2 * size))
    return file.getvalue()


MAKERS: dict[str, Callable[[np.random.Generator, int, int | None], bytes]] = {
    "tables": a_table,
    "images": an_image,
    "masks": a_picture_with_few_shades,
    "text": a_text,
    "audio": a_sound,
}
SUFFIXES = {"tables": "csv", "images": "png", "masks": "png", "text": "txt", "audio": "wav"}


def _answers(family: str, classes: np.ndarray, rng: np.random.Generator) -> list[str]:
    """Typical true values of such competitions: numbers, names, run lengths or nothing."""
    if family == "tables":
        return [f"{value:.4f}" for value in classes + rng.random(len(classes))]
    if family == "masks":
        return [f"{rng.integers(1, 999)} {rng.integers(1, 99)}" if own else "" for own in classes]
    return [("one", "two")[own] for own in classes]


def sizes(world: World) -> None:
    """They overlap, but files of one class tend to be longer."""
    world.write_all(lambda id: world.content(size=int(world.rng.integers(40, 80)) + 48 * world.told[id]))


def times(world: World) -> None:
    world.write_all()
    for place, id in enumerate(world.in_order):
        os.utime(world.path(id), ns=(place, place))


def times_with_ties(world: World) -> None:
    """As after unpacking an archive: many files have the same time, alternating between classes."""
    world.write_all()
    turn = {0: 0, 1: 0}
    for id, own in world.told.items():
        turn[own] += 1
        time = 10**9 * (2 * (turn[own] // 10) + own)
        os.utime(world.path(id), ns=(time, time))


def times_of_inodes(world: World) -> None:
    world.note("time of the inode's change", {id: k // 3 for k, id in enumerate(world.in_order)})


def inodes(world: World) -> None:
    world.note("inode", {id: 10_000 + 2 * k for k, id in enumerate(world.in_order)})


def order_of_a_directory(world: World) -> None:
    world.note("place in the directory", {id: k for k, id in enumerate(world.in_order)})


def modes(world: World) -> None:
    world.write_all()
    for id, own in world.told.items():
        world.path(id).chmod(0o644 if own else 0o444)


def links(world: World) -> None:
    world.note("links", {id: 1 + own for id, own in world.told.items()})


def owners(world: World) -> None:
    world.note("owner", {id: 1000 << 32 | 1000 + own for id, own in world.told.items()})


def extended_attributes(world: World) -> None:
    world.note("extended attributes", {id: 77 * own for id, own in world.told.items()})


def order_of_members(world: World) -> None:
    _zip(world, world.in_order, {})


def times_of_members(world: World) -> None:
    _zip(world, list(world.told), {id: (2020, 1, 1 + own, 0, 0, 0) for id, own in world.told.items()})


def headers(world: World) -> None:
    world.write_all(lambda id: world.content(header=world.told[id]))


def bytes_after_the_end(world: World) -> None:
    world.write_all(lambda id: world.content() + b"\n" * world.told[id])


def folders(world: World) -> None:
    world.write_all()
    for id, own in world.told.items():
        (world.folder / f"part{own}").mkdir(exist_ok=True)
        world.path(id).rename(world.folder / f"part{own}" / world.path(id).name)


def order_of_rows(world: World) -> None:
    world.write_all()
    answers = world.answers.set_index("id").loc[world.in_order].reset_index()
    answers.assign(y=answers["y"].iloc[0]).to_csv(world.dataset.sample_submission, index=False)


def form_of_ids(world: World) -> None:
    """Even numbers for one class, odd ones for the other."""
    new = {id: f"{int(id[1:]) // 2 * 2 + own:07d}x" for id, own in world.told.items()}
    world.answers["id"] = world.answers["id"].map(new)
    world.told = {new[id]: own for id, own in world.told.items()}
    _write_tables(world)
    world.write_all()


def _zip(world: World, ids: list[str], times: dict[str, tuple[int, ...]]) -> None:
    with zipfile.ZipFile(world.dataset.public / "test.zip", "w") as archive:
        for id in ids:
            info = zipfile.ZipInfo(f"test/{world.path(id).name}")
            info.date_time = times.get(id, (2020, 1, 1, 0, 0, 0))  # type: ignore[assignment]
            archive.writestr(info, world.content())


KINDS = [
    *(sizes, times, times_with_ties, times_of_inodes, inodes, order_of_a_directory, modes),
    *(order_of_members, times_of_members, headers, bytes_after_the_end, folders, order_of_rows, form_of_ids),
    *(links, owners, extended_attributes),
]


@pytest.fixture
def world(family: str, tmp_path: Path) -> World:
    folder = tmp_path / f"toy-{family}"
    folder.mkdir()
    (folder / "competition.yaml").write_text(YAML.format(family=family))
    (folder / "description.md").write_text("Which?\n")
    (folder / "grade.py").write_text("def grade(submission, answers):\n    return 0.0\n")
    rng = np.random.default_rng(5)
    classes = rng.integers(0, 2, FILES)
    ids = [f"a{number:06d}" for number in rng.choice(10**6, FILES, replace=False)]
    drawn = np.where(rng.random(FILES) < TRUE_SHARE, classes, rng.integers(0, 2, FILES))
    dataset = Dataset(Competition.load(folder), tmp_path / "data")
    dataset.public.mkdir(parents=True)
    dataset.private.mkdir()
    answers = pd.DataFrame({"id": ids, "y": _answers(family, classes, rng)})
    made = World(family, dataset, rng, answers, dict(zip(ids, drawn.tolist(), strict=True)))
    _write_tables(made)
    return made


def _write_tables(world: World) -> None:
    world.answers.to_csv(world.dataset.answers, index=False)
    sample = world.answers.sample(frac=1, random_state=1)
    sample.assign(y=sample["y"].iloc[0]).to_csv(world.dataset.sample_submission, index=False)


def _quick(kind: int, family: int) -> bool:
    """One family of each kind: the others give the same results."""
    return kind % len(MAKERS) == family


@pytest.mark.parametrize(
    ("family", "plant"),
    [
        pytest.param(family, plant, id=f"{plant.__name__}-{family}", marks=() if _quick(k, f) else pytest.mark.full)
        for k, plant in enumerate(KINDS)
        for f, family in enumerate(MAKERS)
    ],
)
def test_metadata_that_reveals_nine_in_ten_is_found(world: World, plant: Callable[[World], None]) -> None:
    plant(world)
    assert any("reveal" in line for line in find_leaks(world.dataset, world.opened()))


@pytest.mark.parametrize("family", [pytest.param(f, marks=() if f == "masks" else pytest.mark.full) for f in MAKERS])
def test_nothing_is_found_in_metadata_that_reveals_nothing(world: World, tmp_path: Path) -> None:
    world.write_all(lambda id: world.content(size=int(world.rng.integers(40, 80))))
    _zip(world, sorted(world.told), {})
    (tmp_path / "scratch").mkdir()
    replace_by_level(world.dataset.public, tmp_path / "scratch")
    assert not find_leaks(world.dataset)


@pytest.mark.parametrize("family", ["images"])
def test_the_order_of_files_is_checked_even_if_their_content_is_not_read(world: World) -> None:
    inodes(world)
    opened = world.opened(max_total=0)
    assert {entry.content for entry in opened if entry.suffix == ".png"} == {b""}
    assert any("the order by inode reveals" in line for line in find_leaks(world.dataset, opened))


@pytest.mark.parametrize("family", ["images", "masks"])
def test_files_shared_by_several_rows_are_treated_as_one_unit(world: World) -> None:
    """For example, the slices of a scan are rows named after it."""
    inodes(world)
    slices = [world.answers.assign(id=world.answers["id"] + f"_{number}") for number in range(3)]
    world.answers = pd.concat(slices)
    _write_tables(world)
    assert any("times, inodes, modes and order" in line for line in find_leaks(world.dataset, world.opened()))
