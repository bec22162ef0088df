"""Which competitions there are, and the splits they belong to."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from pytest_mlebench.catalog.competition import FILE_NAME, FIRST, VERSIONS, Competition
from pytest_mlebench.catalog.schema import SPLITS, close_matches
from pytest_mlebench.errors import UsageError, expect, reason
from pytest_mlebench.io.files import AnyPath, bundled, expanded
from pytest_mlebench.io.units import pluralize

BENCHMARK = ("low", "medium", "high")
"""The splits that together are ``all``, MLE-bench's 75 competitions."""
_ALIASES = {"lite": ("low",), "all": BENCHMARK} | {split: (split,) for split in SPLITS}
CORE = "core"
"""The split of the second version that leaves out where a medal says little (see ``NOT_CORE``)."""
NOT_CORE = {
    "aerial-cactus-identification": "gold and bronze are the same score",
    "cassava-leaf-disease-classification": "from bronze to gold: 0.003; standard error: 0.006",
    "chaii-hindi-and-tamil-question-answering": "from bronze to gold: 0.03; standard error: 0.04",
    "hubmap-kidney-segmentation": "from bronze to gold: 0.005; standard error: 0.13",
    "iwildcam-2019-fgvc6": "from bronze to gold: 0.10; standard error: 0.11",
    "jigsaw-toxic-comment-classification-challenge": "from bronze to gold: 0.0010; standard error: 0.004",
    "jigsaw-unintended-bias-in-toxicity-classification": "from bronze to gold: 0.005; standard error: 0.009",
    "learning-agency-lab-automated-essay-scoring-2": "from bronze to gold: 0.0011; standard error: 0.007",
    "osic-pulmonary-fibrosis-progression": "from bronze to gold: 0.03; standard error: 0.2",
    "petfinder-pawpularity-score": "from bronze to gold: 0.15; standard error: 0.4",
    "plant-pathology-2020-fgvc7": "from bronze to gold: 0.005; standard error: 0.02",
    "ranzcr-clip-catheter-line-classification": "from bronze to gold: 0.003; standard error: 0.015",
    "rsna-miccai-brain-tumor-radiogenomic-classification": "from bronze to gold: 0.03; standard error: 0.07",
    "siim-isic-melanoma-classification": "from bronze to gold: 0.008; standard error: 0.02",
    "stanford-covid-vaccine": "from bronze to gold: 0.006; standard error: 0.02",
    "tabular-playground-series-dec-2021": "from bronze to gold: 0.00002; standard error: 0.0003",
    "tabular-playground-series-may-2022": "from bronze to gold: 0.00005; standard error: 0.00013",
    "uw-madison-gi-tract-image-segmentation": "from bronze to gold: 0.012; standard error: 0.06",
    "vesuvius-challenge-ink-detection": "from bronze to gold: 0.12; standard error: 0.4",
}
"""Why competitions are not in ``core`` (``python -m tools.core_split``); the contaminated are not in it either."""
SPLIT_NAMES = tuple(sorted([*_ALIASES, CORE]))


_SHOWN = 12


def unknown(kind: str, name: str, choices: Iterable[str], *, advice: str = "") -> UsageError:
    """The error for a name that is none of the choices; lists close matches, or what there is.

    With ``advice`` on how to add a choice, it lists all of them, but no variants (``id/variant``).
    """
    names = sorted(choices)
    close = close_matches(name, names)
    found = [f"did you mean {' or '.join(close)}?"] if close else []
    if not names:
        found = ["there is none"]
    elif name.split("/")[0] not in {known.split("/")[0] for known in names} and (own := _in_this_folder(kind, name)):
        found = [own]
    elif advice:
        without_variants = [own for own in names if own.split("/")[0] not in names or "/" not in own]
        found += [f"there are {', '.join(without_variants)}.", advice]
    elif not close:
        found = [f"there are {', '.join(names[:_SHOWN])}{', …' if len(names) > _SHOWN else ''}"]
    return UsageError(f"unknown {kind} {name!r}; {' '.join(found)}")


def _in_this_folder(kind: str, name: str) -> str:
    """How to use a folder of this name that is where the user is; empty if there is none."""
    kinds = {"competition": ("competitions", FILE_NAME), "agent": ("agents", "config.yaml")}
    folder_of, file_name = kinds.get(kind, ("", ""))
    if folder_of and "/" in name and (Path(name) / file_name).is_file():
        folder = Path(name)
        return f"{name} is a folder: use its name, {folder.name}, and add --{folder_of}-dir={folder.parent}"
    id = name.split("/")[0] if kind == "agent" else name
    if not folder_of or not re.fullmatch(r"\w[\w.-]*", id):
        return ""
    folders = [folder for folder in (folder_of, ".") if (Path(folder) / id / file_name).is_file()]
    return f"to use {Path(folders[0]) / id}, add --{folder_of}-dir={folders[0]}" if folders else ""


class Catalogue:
    """The competitions of one or more folders, by id.

    A folder holds competitions as its subfolders, or is one itself. Raises UsageError for a folder that holds none,
    and where two competitions have the same id. They are those of one version of the benchmark.

    >>> catalogue = default_catalogue()
    >>> [competition.id for competition in catalogue.split("smoke")]
    ['smoke-breast-cancer', 'smoke-diabetes', 'smoke-digits']
    >>> "spaceship-titanic" in catalogue
    True
    """

    def __init__(self, *folders: AnyPath, version: str = FIRST) -> None:
        if version not in VERSIONS:
            raise UsageError(f"version {version!r} of the benchmark must be one of {', '.join(VERSIONS)}")
        self.folders = tuple(expanded(folder) for folder in folders)
        self.version = version
        self._files: dict[str, Path] = {}
        for folder in self.folders:
            own = folder / FILE_NAME
            candidates = [own] if own.is_file() else sorted(folder.glob(f"*/{FILE_NAME}"))
            found = [file for file in candidates if Competition.is_ours(file)]
            if not found:
                what = "holds no competition (a folder with competition.yaml)" if folder.is_dir() else "is not a folder"
                raise UsageError(f"competitions folder {folder} {what}")
            for file in found:
                id = file.parent.name
                other = self._files.setdefault(id, file)
                if other.resolve() != file.resolve():
                    raise UsageError(f"competition {id!r} is in two folders: {other.parent} and {file.parent}")

    def __repr__(self) -> str:
        return f"<Catalogue {self.version}: {pluralize(len(self), 'competition')}>"

    def __iter__(self) -> Iterator[Competition]:
        return (self[id] for id in self._files)

    def __len__(self) -> int:
        return len(self._files)

    def __contains__(self, id: object) -> bool:
        return id in self._files

    def __getitem__(self, id: str) -> Competition:
        """Raises UsageError with close matches for an unknown id."""
        expect(id, str, "a competition's id", "as in catalogue['smoke-digits']")
        if id not in self._files:
            raise unknown("competition", id, self._files)
        return load(self._files[id], self.version)

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(self._files)

    @property
    def split_names(self) -> tuple[str, ...]:
        """The bundled splits with their aliases, and those that competitions of other folders name."""
        return tuple(sorted({*SPLIT_NAMES, *(competition.split for competition in self)}))

    def split(self, name: AnyPath) -> list[Competition]:
        """The competitions of a split (see ``split_names``), or of a file with one id per line.

        Raises UsageError for a name that is neither, and for an unknown id with the file's name and its line.
        """
        name = os.fspath(name)
        if name in _ALIASES:
            return [competition for competition in self if competition.split in _ALIASES[name]]
        if name == CORE:
            if self.version == FIRST:
                raise UsageError("split 'core' is of version 2 of the benchmark: add --bench-version=2")
            return [own for own in self.split("all") if own.id not in NOT_CORE and not own.contaminated]
        path = Path(name)
        try:
            is_file = path.is_file()
        except (OSError, ValueError) as error:
            raise UsageError(f"split {name!r}: {reason(error)}") from error
        if is_file:
            return [self._of_line(path, line, id) for line, id in _numbered_ids(path)]
        if path.suffix or path.parent != Path():
            raise UsageError(f"split file {name} {'is a folder' if path.is_dir() else 'does not exist'}")
        if own := [competition for competition in self if competition.split == name]:
            return own
        names = [known for known in self.split_names if known != CORE or self.version != FIRST]
        raise unknown("split", name, names, advice="A file with one competition id per line is also a split.")

    def _of_line(self, path: Path, line: int, id: str) -> Competition:
        if id not in self._files:
            raise UsageError(f"{path}, line {line}: {unknown('competition', id, self._files)}")
        return self[id]


def read_ids(path: Path) -> list[str]:
    """Competition ids from a text file, one per line; empty lines and those that start with # are skipped."""
    return [id for _, id in _numbered_ids(path)]


def _numbered_ids(path: Path) -> list[tuple[int, str]]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not a readable list of competition ids: {reason(error)}") from error
    ids = [(number, line.strip()) for number, line in enumerate(lines, 1)]
    first = {id: number for number, id in reversed(ids)}
    found = [(number, id) for number, id in ids if id and not id.startswith("#") and first[id] == number]
    if not found:
        raise UsageError(f"{path} names no competition")
    return found


def default_catalogue(*folders: AnyPath, version: str = FIRST) -> Catalogue:
    """The bundled competitions, and those of other folders beside them.

    >>> len(default_catalogue().split("all"))
    75
    """
    return _catalogue(version, bundled("competitions"), *(expanded(folder) for folder in folders))


@cache
def _catalogue(version: str, *folders: Path) -> Catalogue:
    return Catalogue(*folders, version=version)


@cache
def load(path: Path, version: str = FIRST) -> Competition:
    """A competition's folder or file, which this process reads once (see ``Competition.load``)."""
    return Competition.load(path, version=version)
