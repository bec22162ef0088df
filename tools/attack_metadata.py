"""``python -m tools.attack_metadata`` tries to predict answers from metadata alone, in all competitions and versions.

    python -m tools.attack_metadata -c alaska2-image-steganalysis
    python -m tools.attack_metadata --image=debian:bookworm-slim   # read in containers
    python -m tools.attack_metadata --twin=7                       # twins of seed 7 instead of synthetic data
    python -m tools.attack_metadata --keep=results.jsonl           # resumes an earlier call

The synthetic raw data of each competition is packed class by class, as real archives often are, and prepared from the
archive as a user would. Then classifiers try to predict the answers from times, inodes, modes, order, sizes, headers,
ids and row positions (see ``pytest_mlebench.gate.metadata``). The p-values of their permutation tests are
multiplied by the number of tests (Bonferroni). Synthetic data is small, so those of each kind are also combined over
all competitions (Fisher's method). The exit status is 1 if a p-value is below 0.01 and is not in ``EXPLAINED``.

With ``--image``, file system metadata is read in a container from a read-only mount. The image needs only ``find``.
With ``--spoil``, files are written class by class before the attack, as unpacking would: then the attack must succeed.
Twins are prepared as for runs. Competitions whose data has fewer than 8 test units are listed as too small.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from scipy.stats import combine_pvalues

from pytest_mlebench.catalog import Competition, default_catalogue
from pytest_mlebench.data.dataset import Dataset, md5
from pytest_mlebench.data.preparing import make_synthetic, parse_choice, resolve_choice, twins_of
from pytest_mlebench.data.store import DataStore
from pytest_mlebench.gate.leaks import sample_order, true_values
from pytest_mlebench.gate.metadata import CONTENT, ROWS, Attack, attacks, stem_of
from pytest_mlebench.gate.public_files import PublicFile, entries
from pytest_mlebench.grading.twins import TwinStore

LEVEL = 0.01
EXPLAINED = {
    ("AI4Code", CONTENT): "A notebook with more cells is a larger file: the answer lists its cells.",
    ("denoising-dirty-documents", ROWS): "A pixel's position is in its id; pages have margins.",
    (
        "ml2021spring-hw2",
        ROWS,
    ): "Frames are in chronological order, like Kaggle's: neighbours belong to the same sound.",
    (
        "rsna-2022-cervical-spine-fracture-detection",
        ROWS,
    ): "The id has the vertebra, or `overall`, which is positive more often.",
    ("stanford-covid-vaccine", ROWS): "A base's position is in its id; the ends of molecules react differently.",
    ("text-normalization-challenge-english-language", ROWS): "A token's position in its sentence is in its id.",
    ("text-normalization-challenge-russian-language", ROWS): "A token's position in its sentence is in its id.",
}
"""Findings inherent to the task: ids that encode positions, and files whose size is part of the answer."""


def prepared_from_archive(competition: Competition, root: Path) -> Dataset:
    """The competition's synthetic data, prepared from an archive whose members are in the order of their labels."""
    store, raw = DataStore(root), root / "raw"
    raw.mkdir(parents=True)
    make_synthetic(competition, raw, competition.golden["seed"])
    label = _labels(store.prepare(competition, raw_dir=raw, verify=False))
    dataset = store.dataset(competition)
    files = sorted(path for path in raw.rglob("*") if path.is_file())
    files.sort(key=lambda path: label.get(md5(path), ""))  # files outside the test set come first
    with zipfile.ZipFile(dataset.archive, "w") as archive:
        for path in files:
            archive.write(path, path.relative_to(raw))
    return store.prepare(competition, force=True, keep_raw=False, verify=False, check_disk=False)


def _labels(dataset: Dataset) -> dict[str, str]:
    """True values of the test files, by digest."""
    truth = true_values(dataset)
    ids = {stem_of(id): id for id in next(iter(truth.values()), {})}
    return {
        md5(path): "\n".join(true[ids[stem_of(path)]] for true in truth.values())
        for path in dataset.public.rglob("*")
        if path.is_file() and stem_of(path) in ids
    }


def as_in_a_container(opened: Sequence[PublicFile], public: Path, image: str) -> list[PublicFile]:
    """The public files with their file system metadata as seen in a container."""
    form = r"%P\t%T@\t%C@\t%i\t%m\t%U\t%G\t%n\t%b\t%B@\n"
    mount = f"type=bind,source={public.absolute()},target=/home/data,readonly"
    command = ["docker", "run", "--rm", "--network=none", "--user=65534", "--mount", mount, image]
    listed = subprocess.run([*command, "find", "/home/data", "-printf", form], check=True, capture_output=True)
    noted = {}
    for place, line in enumerate(listed.stdout.decode().splitlines()):
        name, changed, of_inode, inode, mode, user, group, links, blocks, born = line.split("\t")
        noted[name] = (
            ("time of change", changed.replace(".", "")),
            ("time of the inode's change", of_inode.replace(".", "")),
            ("time of birth", re.sub(r"\D", "", born) or "0"),  # if the file system stores it
            ("inode", inode),
            ("mode", str(int(mode, 8))),
            ("owner", str(int(user) << 32 | int(group))),
            ("links", links),
            ("blocks", blocks),
            ("place in the directory", str(place)),
        )
    return [replace(entry, noted=noted.get(entry.name, entry.noted)) for entry in opened]


def spoil(dataset: Dataset) -> None:
    """Rewrite the public files in the order of their labels, with times a nanosecond apart."""
    label = _labels(dataset)
    files = sorted(path for path in dataset.public.rglob("*") if path.is_file())
    for time, path in enumerate(sorted(files, key=lambda path: label.get(md5(path), ""))):
        content = path.read_bytes()
        path.unlink()
        path.write_bytes(content)
        os.utime(path, ns=(time, time))


def attacked(
    competition: Competition, image: str | None = None, *, spoiled: bool = False, twin: int | None = None
) -> Iterator[Attack]:
    """Prepare a competition, or its twin with the seed ``twin``, in a temporary folder, and attack it."""
    with tempfile.TemporaryDirectory() as folder:
        if twin is None:
            dataset = prepared_from_archive(competition, Path(folder, "store"))
        else:
            root = Path(folder)
            twins = twins_of(resolve_choice(parse_choice(f"twin:{twin}"), root))
            dataset = TwinStore(root, twins).prepare(competition)
        if spoiled:
            spoil(dataset)
        opened, truth = list(entries(dataset.public)), true_values(dataset)
        if image is not None:
            opened = as_in_a_container(opened, dataset.public, image)
        yield from attacks(opened, truth, sample_order(dataset, truth))


class _Kept:
    """Stores results in a JSON Lines file, if one is given: one line for each competition and version."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        lines = path.read_text().splitlines() if path is not None and path.exists() else ()
        self.results = {(v, id): [Attack(**own) for own in results] for v, id, results in map(json.loads, lines)}

    def add(self, version: str, id: str, results: Sequence[Attack]) -> None:
        if self._path is not None:
            with self._path.open("a") as file:
                file.write(json.dumps([version, id, [asdict(own) for own in results]]) + "\n")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.attack_metadata", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("-c", "--competition", action="append", help="an id; repeatable (default: all)")
    parser.add_argument("--image", help="read file system metadata in a container of this image")
    parser.add_argument("--spoil", action="store_true", help="write files class by class first")
    parser.add_argument("--twin", type=int, metavar="SEED", help="attack twins with this seed")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="store results here, and skip existing ones")
    options = parser.parse_args(arguments)
    kept = _Kept(options.keep)
    found: list[tuple[str, Competition, Attack]] = []
    for version in ("v1", "v2"):
        for competition in default_catalogue(version=version):
            if competition.source == "bundled" or (options.competition and competition.id not in options.competition):
                continue
            if version == "v2" and not competition.is_corrected:
                continue
            if (results := kept.results.get((version, competition.id))) is None:
                results = list(attacked(competition, options.image, spoiled=options.spoil, twin=options.twin))
                kept.add(version, competition.id, results)
            found += [(version, competition, result) for result in results]
            kinds = {kind: min(r.p for r in results if r.kind == kind) for kind in sorted({r.kind for r in results})}
            shown = ", ".join(f"{kind} p = {p:.3g}" for kind, p in kinds.items()) or "too small"
            known = "; known leak in the content" if competition.known_leak else ""
            print(f"{competition.id} {version}: {shown}{known}", flush=True)
    return _summary(found)


def _summary(found: Sequence[tuple[str, Competition, Attack]]) -> int:
    failures = 0
    for version, competition, result in found:
        if (p := min(1.0, result.p * len(found))) >= LEVEL:
            continue
        why = EXPLAINED.get((competition.id, result.kind))
        failures += why is None
        print(
            f"{'explained' if why else 'LEAK'}: {competition.id} {version}: {result.kind} gives the {result.target}: "
            f"{result.right} of {result.rows} are right, guessing {result.guess}; "
            f"it uses the {result.main_feature} most (p = {p:.3g} after correction). {why or ''}"
        )
    for version, kind in sorted({(version, result.kind) for version, _, result in found}):
        own = [
            result.p
            for own_version, competition, result in found
            if (own_version, result.kind) == (version, kind) and (competition.id, kind) not in EXPLAINED
        ]
        p = float(combine_pvalues(own, method="fisher").pvalue)
        failures += p < LEVEL
        print(f"{kind} {version}: p = {p:.3g} combined over {len(own)} tests")
    print(f"{len(found)} tests, {failures} unexplained failures")
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
