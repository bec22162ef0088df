"""The available competitions, and the splits that they belong to."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

from pytest_mlebench.catalog.competition import FILE_NAME, FIRST, VERSIONS, Competition
from pytest_mlebench.catalog.schema import SPLITS, close_matches
from pytest_mlebench.errors import UsageError, expect, reason
from pytest_mlebench.io.files import AnyPath, bundled, expanded
from pytest_mlebench.io.units import listed, pluralize

BENCHMARK = ("low", "medium", "high")
"""The splits that together are ``all``, MLE-bench's 75 competitions."""
_ALIASES = {"lite": ("low",), "all": BENCHMARK} | {split: (split,) for split in SPLITS}
CORE = "core"
"""A split of version 2, without the competitions in which a medal means little (see ``NOT_CORE``)."""
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
"""Why competitions are not in ``core`` (``python -m tools.core_split``). Contaminated ones are not in it either."""
SPLIT_NAMES = tuple(sorted([*_ALIASES, CORE]))


_MAX_SHOWN = 12


def unknown(kind: str, name: str, choices: Iterable[str], *, advice: str = "") -> UsageError:
    """The error for a name that is not one of the choices; lists close matches or the choices.

    With ``advice`` on how to add a choice, it lists all choices except variants (``id/variant``).
    """
    names = sorted(choices)
    close = close_matches(name, names)
    found = [f"did you mean {listed(close, 'or')}?"] if close else []
    if not names:
        found = ["there are none"]
    elif name.split("/")[0] not in {known.split("/")[0] for known in names} and (hint := _in_this_folder(kind, name)):
        found = [hint]
    elif advice:
        without_variants = [choice for choice in names if choice.split("/")[0] not in names or "/" not in choice]
        found += [f"choose from {', '.join(without_variants)}.", advice]
    elif not close:
        found = [f"choose from {', '.join(names[:_MAX_SHOWN])}{', …' if len(names) > _MAX_SHOWN else ''}"]
    return UsageError(f"unknown {kind} {name!r}; {' '.join(found)}")


def _in_this_folder(kind: str, name: str) -> str:
    """How to use a folder of this name below the current one; empty if there is none."""
    kinds = {"competition": ("competitions", FILE_NAME), "agent": ("agents", "config.yaml")}
    folder_of, file_name = kinds.get(kind, ("", ""))
    if folder_of and "/" in name and _is_file(Path(name) / file_name):
        folder = Path(name)
        return f"{name} is a folder: use its name, {folder.name}, and add --{folder_of}-dir={folder.parent}"
    id = name.split("/")[0] if kind == "agent" else name
    if not folder_of or not re.fullmatch(r"\w[\w.-]*", id):
        return ""
    folders = [folder for folder in (folder_of, ".") if _is_file(Path(folder) / id / file_name)]
    return f"to use {Path(folders[0]) / id}, add --{folder_of}-dir={folders[0]}" if folders else ""


def _is_file(path: Path) -> bool:
    with suppress(OSError):  # the name is too long
        return path.is_file()
    return False


class Catalogue:
    """The competitions of one or more folders, by id.

    A folder contains competitions as subfolders, or is one itself. All are of one version of the benchmark. Raises
    UsageError if a folder contains no competition, or if two competitions have the same id.

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
            direct = folder / FILE_NAME
            candidates = [direct] if direct.is_file() else sorted(folder.glob(f"*/{FILE_NAME}"))
            found = [file for file in candidates if Competition.is_ours(file)]
            if not found:
                what = "has no competition (a folder with competition.yaml)" if folder.is_dir() else "is not a folder"
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
        """The bundled splits with their aliases, and the splits that custom competitions name."""
        return tuple(sorted({*SPLIT_NAMES, *(competition.split for competition in self)}))

    def split(self, name: AnyPath) -> list[Competition]:
        """The competitions of a split (see ``split_names``), or of a file with one id per line.

        Raises UsageError for a name that is neither, and for an unknown id, with the file's name and the line.
        """
        name = os.fspath(name)
        if name in _ALIASES:
            return [competition for competition in self if competition.split in _ALIASES[name]]
        if name == CORE:
            if self.version == FIRST:
                raise UsageError("split 'core' needs version 2 of the benchmark: add --bench-version=2")
            return [item for item in self.split("all") if item.id not in NOT_CORE and not item.contaminated]
        path = Path(name)
        try:
            is_file = path.is_file()
        except (OSError, ValueError) as error:
            raise UsageError(f"split {name!r}: {reason(error)}") from error
        if is_file:
            return self.listed(path)
        if path.suffix or path.parent != Path():
            raise UsageError(f"split file {name} {'is a folder' if path.is_dir() else 'does not exist'}")
        if found := [competition for competition in self if competition.split == name]:
            return found
        names = [known for known in self.split_names if known != CORE or self.version != FIRST]
        raise unknown("split", name, names, advice="A file with one competition id per line is also a split.")

    def listed(self, path: Path) -> list[Competition]:
        """The competitions in a file with one id per line; empty lines and those that start with # are skipped.

        Raises UsageError that names the file and the line.
        """
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"{path} is not a readable list of competition ids: {reason(error)}") from error
        found: dict[str, Competition] = {}
        for number, id in enumerate(map(str.strip, lines), 1):
            if not id or id.startswith("#"):
                continue
            if id not in self._files:
                raise UsageError(f"{path}, line {number}: {unknown('competition', id, self._files)}")
            found[id] = self[id]
        if not found:
            raise UsageError(f"{path} names no competition")
        return list(found.values())


def default_catalogue(*folders: AnyPath, version: str = FIRST) -> Catalogue:
    """The bundled competitions, and those of other folders.

    >>> len(default_catalogue().split("all"))
    75
    """
    return _catalogue(version, bundled("competitions"), *(expanded(folder) for folder in folders))


@cache
def _catalogue(version: str, *folders: Path) -> Catalogue:
    return Catalogue(*folders, version=version)


@cache
def load(path: Path, version: str = FIRST) -> Competition:
    """Load a competition's folder or file, which each process reads only once (see ``Competition.load``)."""
    return Competition.load(path, version=version)
