"""Golden results: what preparing and grading a competition's synthetic raw data must give.

``golden.json`` has their ``origin`` (``reference`` if the reference gives the same results, else ``own``), the
``seed``, the digests of all prepared files by side, the unrounded ``scores`` of the valid submissions, the names of the
``invalid`` ones, and of those with ``no_score`` (valid, but NaN). ``lines`` has four digits for each line of the
prepared text files, to show the first line that differs.
"""

from __future__ import annotations

import json
import math
import reprlib
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from difflib import SequenceMatcher
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_mlebench.catalog.competition import Competition, golden_command
from pytest_mlebench.data.dataset import Dataset, differences, listing
from pytest_mlebench.data.preparing import call, call_module, make_synthetic, restart_fork_server
from pytest_mlebench.data.store import DataStore
from pytest_mlebench.data.tables import changed_cells, is_comparable
from pytest_mlebench.errors import CompetitionError, GraderDefect, InvalidSubmission
from pytest_mlebench.io.files import AnyPath
from pytest_mlebench.io.progress import Reporter, Step, silent
from pytest_mlebench.io.units import first, pluralize

if TYPE_CHECKING:
    from pytest_mlebench.grading.scorer import Scorer

ANSWERS = "<answers>"
SAMPLE = "<sample_submission>"
_MAX_MARKED_BYTES, _MAX_MARKED_LINES = 1 << 20, 2000
"""Limits of a text file whose lines are marked."""
TOLERANCE = 5.1e-6
"""Tolerance between scores, which reports round to five decimals."""


def synthetic_submissions(competition: Competition, dataset: Dataset, folder: Path, seed: int = 1) -> dict[str, Path]:
    """Write the synthetic submissions to a folder; returns paths by name, also of the answers and the sample."""
    folder.mkdir(parents=True, exist_ok=True)
    arguments = competition, dataset.folder, folder, seed
    files = call(submissions_here, *arguments, kind=tuple[str, ...], read=[dataset.folder], write=[folder])
    if not all(name and name == Path(name).name for name in files):
        raise CompetitionError(f"{competition.id}: synthetic.py: {reprlib.repr(files)} are not names of submissions")
    paths = {ANSWERS: dataset.perfect_submission, SAMPLE: dataset.sample_submission}
    return paths | {name: folder / name for name in files}


def submissions_here(competition: Competition, root: AnyPath, place: AnyPath, seed: int) -> list[str]:
    """Write the synthetic submissions to the folder ``place``, in this process; returns their file names."""
    import numpy as np
    import pandas as pd

    dataset, folder = Dataset(competition, Path(root)), Path(place)
    rng = np.random.default_rng(seed)
    made = call_module(competition, "synthetic", "submissions", dataset.public, dataset.private, rng)
    if not isinstance(made, Mapping) or not all(isinstance(name, str) for name in made):
        raise CompetitionError(
            f"{competition.id}: synthetic.py: submissions must return a dictionary by name, not {reprlib.repr(made)}"
        )
    names: list[str] = []
    for name, content in made.items():
        path = folder / (name if "." in name else f"{name}.csv")
        if path.parent != folder or path.name in (ANSWERS, SAMPLE):
            raise CompetitionError(f"{competition.id}: synthetic.py: {name!r} is not a file name")
        if isinstance(content, pd.DataFrame):
            content.to_csv(path, index=False)
        elif isinstance(content, str):
            path.write_text(content, encoding="utf-8", newline="")
        else:
            kind = type(content).__name__
            raise CompetitionError(
                f"{competition.id}: synthetic.py: submission {name!r} is a {kind}, not a table or text"
            )
        names.append(path.name)
    return names


@dataclass(frozen=True)
class Grade:
    """The result of one submission: a score (NaN if it is valid without one), or the reason why it is invalid."""

    name: str
    score: float | None = None
    reason: str | None = None
    defect: bool = False


def grade_all(competition: Competition, dataset: Dataset, submissions: Mapping[str, Path]) -> Iterator[Grade]:
    """Grade submissions, given by name, without rounding."""
    # Folders, because a file may be a link that synthetic.py created: its target must remain closed.
    read = [dataset.folder, *{path.parent for path in submissions.values()}]
    arguments = competition, dataset.answers, dict(submissions)
    yield from call(grade_here, *arguments, kind=tuple[Grade, ...], read=read)


def grade_here(competition: Competition, answers: AnyPath, submissions: Mapping[str, AnyPath]) -> list[dict[str, Any]]:
    """Grade submissions in this process; returns the fields of each Grade."""
    from pytest_mlebench.grading.scorer import Scorer

    scorer = Scorer(competition, Path(answers))
    return [asdict(_grade(scorer, name, Path(path))) for name, path in submissions.items()]


def _grade(scorer: Scorer, name: str, path: Path) -> Grade:
    try:
        score = scorer.score(path)
        scorer.row_scores(path)  # raises GraderDefect if its score differs
    except GraderDefect as error:
        return Grade(name, reason=str(error), defect=True)
    except InvalidSubmission as error:
        return Grade(name, reason=str(error))
    return Grade(name, score=float(score))


def make_golden(competition: Competition, scratch: Path, seed: int = 1, reporter: Reporter = silent) -> dict[str, Any]:
    """Prepare and grade the synthetic data in an empty folder. Raises CompetitionError for defects."""
    dataset = DataStore(scratch / "data").prepare(competition, synthetic=seed, reporter=reporter)
    submissions = synthetic_submissions(competition, dataset, scratch / "submissions", seed)
    reporter(Step(competition.id, f"grading {pluralize(len(submissions), 'submission')}"))
    grades = list(grade_all(competition, dataset, submissions))
    if defects := [f"{grade.name}: {grade.reason}" for grade in _unique(grades) if grade.defect]:
        raise CompetitionError(
            f"{competition.id}: grade.py must return a score or raise InvalidSubmission with a reason:\n  "
            + "\n  ".join(defects)
        )
    grades.sort(key=lambda grade: grade.name)
    scores = {grade.name: grade.score for grade in grades if grade.score is not None}
    answers = next(grade for grade in grades if grade.name == ANSWERS)
    if not any(math.isfinite(score) for score in scores.values()):
        why = f"scores {answers.score}" if answers.reason is None else f"is invalid: {answers.reason}"
        file = competition.file("grade.py")
        raise CompetitionError(f"{competition.id}: no submission has a score: {ANSWERS} {why}; look at {file}")
    if answers.reason is not None and "answers_are_invalid" not in competition.exceptions:
        raise CompetitionError(
            f"{competition.id}: the answers ({competition.perfect_submission}) as a submission are invalid: "
            f"{answers.reason}. Correct {competition.file('grade.py')}, or give the reason in "
            f"{competition.file('competition.yaml')} as exceptions.answers_are_invalid"
        )
    _prepare_again(competition, dataset, scratch / "again", seed)
    return {
        "seed": seed,
        **prepared_listing(dataset),
        "scores": {name: score for name, score in scores.items() if not math.isnan(score)},
        "no_score": [name for name, score in scores.items() if math.isnan(score)],
        "invalid": [grade.name for grade in grades if grade.reason is not None],
        "lines": {side: _marks(folder) for side, folder in _sides(dataset).items()},
    }


def _prepare_again(competition: Competition, dataset: Dataset, folder: Path, seed: int) -> None:
    """Raise CompetitionError if generating and preparing the synthetic data again gives a different result."""
    raws = [folder / "raw", folder / "raw-again"]
    for raw in raws:
        raw.mkdir(parents=True)
        make_synthetic(competition, raw, seed)
        restart_fork_server()
    first, second = map(listing, raws)
    sides = [("synthetic.py", "seed", "raw", first, second)]
    again = DataStore(folder / "data").prepare(competition, synthetic=seed)
    before, after = prepared_listing(dataset), prepared_listing(again)
    sides += [("prepare.py", "data", side, before[side], after[side]) for side in before]
    for file, given, side, first, second in sides:
        for line in differences(first, second, where=side):
            raise CompetitionError(
                f"{competition.id}: {line} the second time: {competition.file(file)} must always give the same for the "
                f"same {given} (use seeded random numbers, no dates, and no order of sets)"
            )


def _sides(dataset: Dataset) -> dict[str, Path]:
    return {"public": dataset.public, "private": dataset.private}


def _marks(folder: Path) -> dict[str, str]:
    """Return the marks of all lines of each small text file below a folder, by its path."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if name != "description.md" and path.is_file() and (lines := lines_of(path)) is not None:
            found[name] = "".join(map(mark, lines))
    return found


def lines_of(path: Path) -> list[str] | None:
    """Return the lines of a small text file; None for other files."""
    if path.stat().st_size > _MAX_MARKED_BYTES:
        return None
    try:
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    except UnicodeDecodeError:
        return None
    return lines if len(lines) <= _MAX_MARKED_LINES else None


def mark(line: str) -> str:
    """Return the four hexadecimal digits that stand for a line in golden.json."""
    return f"{zlib.crc32(line.encode()) & 0xFFFF:04x}"


def first_difference(path: Path, marks: str) -> str:
    """Describe where a text file first differs from its marks, and what was expected there; empty if unknown."""
    lines = lines_of(path) if path.is_file() else None
    if lines is None:
        return ""
    expected, found = [marks[i : i + 4] for i in range(0, len(marks), 4)], [mark(line) for line in lines]
    opcodes = SequenceMatcher(None, expected, found, autojunk=False).get_opcodes()
    if not (changed := [code for code in opcodes if code[0] != "equal"]):
        return ""
    kind, first, last, begin, end = changed[0]
    if sorted(expected) == sorted(found):
        index = found.index(expected[first])
        wanted = f"{_line_at(lines, index)}, now line {index + 1}: the same lines in another order"
    elif kind == "insert":
        added = f", which comes {pluralize(end - begin, 'line')} later" if end < len(lines) else ""
        wanted = f"{_line_at(lines, end)}{added}"
    elif kind == "delete":
        wanted = f"{pluralize(last - first, 'more line')}{' before it' if begin < len(lines) else ''}"
    else:
        kept = sum(last - first for kind, first, last, *_ in opcodes if kind == "equal")
        wanted = f"a line that golden.json has only as a digest; {kept} of {len(expected)} lines are as expected"
    counts = "" if len(lines) == len(expected) else f"; {len(expected)} lines expected in total, {len(lines)} found"
    return f"line {begin + 1} is the first that differs: found {_line_at(lines, begin)}, expected {wanted}{counts}"


def _line_at(lines: Sequence[str], index: int) -> str:
    return repr(lines[index].rstrip()[:200]) if index < len(lines) else "the end"


def write_golden(competition: Competition, made: Mapping[str, Any], *, force: bool = False) -> dict[str, Any]:
    """Write ``golden.json``, and return it.

    Results of the reference are kept: new submissions are added. Raises CompetitionError if any results differ.
    With ``force``, they are replaced by the competition's own results.
    """
    path = (
        competition.folder / competition.version if competition.is_corrected else competition.folder
    ) / "golden.json"
    golden = {"origin": "own", **made}
    if not force and path.is_file() and (old := competition.golden).get("origin") == "reference":
        if wrong := _golden_differences(competition, made):
            raise CompetitionError(
                f"{path} has the reference's results, and the new ones differ:\n  " + "\n  ".join(wrong) + "\n"
                f"Correct the competition's files, or accept the results: `{golden_command(competition, '--force')}`"
            )
        golden = {
            **old,
            "scores": dict(sorted({**made["scores"], **old["scores"]}.items())),
            "no_score": made["no_score"],
            "lines": made["lines"],
            "invalid": [*old["invalid"], *(name for name in made["invalid"] if name not in old["invalid"])],
        }
    path.write_text(json.dumps(golden, indent=1) + "\n", encoding="utf-8")
    return golden


def _golden_differences(competition: Competition, made: Mapping[str, Any]) -> list[str]:
    """Return the old results that are missing or different in the new ones, one line each."""
    old = competition.golden
    grades = {name: Grade(name, score=score) for name, score in made["scores"].items()}
    grades |= {name: Grade(name, score=math.nan) for name in made["no_score"]}
    grades |= {name: Grade(name, reason="rejected") for name in made["invalid"]}
    return [
        *(line for side in ("public", "private") for line in differences(old[side], made[side], where=side)),
        *(line for name, score in _expected(old).items() if (line := _difference(name, score, grades.get(name)))),
        *rejection_differences(competition, grades),
    ]


def prepared_listing(dataset: Dataset) -> dict[str, dict[str, Any]]:
    """Return digests of the prepared files by side, without the description, which every dataset has."""
    found = {side: listing(folder) for side, folder in _sides(dataset).items()}
    found["public"].pop("description.md", None)
    return found


def cell_differences(competition: Competition, dataset: Dataset, folder: Path) -> list[str] | None:
    """Return columns that ``prepare.py`` changed, one sentence each; None if not comparable. Raw data is generated in
    ``folder``."""
    if not is_comparable(competition):
        return None
    make_synthetic(competition, folder, competition.golden["seed"])
    return changed_cells(competition, folder, dataset)


def prepared_differences(competition: Competition, dataset: Dataset) -> list[str]:
    """Return how the prepared synthetic data differs from golden.json; empty if it does not."""
    found, marks = prepared_listing(dataset), competition.golden.get("lines", {})
    wrong = []
    for side, folder in _sides(dataset).items():
        for line in differences(competition.golden[side], found[side], where=side):
            name = line.removeprefix(f"{side}/").partition(": expected ")[0]
            known = marks.get(side, {}).get(name)
            where = first_difference(folder / name, known) if known is not None else ""
            wrong.append(f"{side}/{name}: {where}" if where else line)
    return wrong


def advice(competition: Competition, *files: str, accept: bool = True) -> str:
    """Return which files to check if results differ from golden.json and, with ``accept``, how to accept them."""
    hint = f"Look at {' and '.join(str(competition.file(name)) for name in files)}."
    if not accept:
        return hint
    force = ("--force",) if competition.golden.get("origin") == "reference" else ()
    return f"{hint} If the change is intended, accept it: {golden_command(competition, *force)}"


def score_differences(competition: Competition, grades: Mapping[str, Grade]) -> list[str]:
    """Return the valid submissions of golden.json whose results differ, one line each; empty if none do."""
    golden = competition.golden
    wanted = _expected(golden)
    known = {*wanted, *golden["invalid"]}
    defects = _unique([grades[name] for name in wanted if name in grades and grades[name].defect])
    without_defect = (name for name in wanted if name not in grades or not grades[name].defect)
    return [
        *(f"{name} is not in golden.json; run `mlebench golden`" for name in grades if name not in known),
        *(f"{grade.name}: {grade.reason}" for grade in defects),
        *(line for name in without_defect if (line := _difference(name, wanted[name], grades.get(name)))),
    ]


def rejection_differences(competition: Competition, grades: Mapping[str, Grade]) -> list[str]:
    """Return the malformed submissions of golden.json that are not rejected with a reason; empty if all are."""
    names = competition.golden["invalid"]
    wrong = [f"{name} is not among the synthetic submissions" for name in names if name not in grades]
    for grade in _unique([grades[name] for name in names if name in grades]):
        if grade.reason is None:
            wrong.append(f"{grade.name} must be invalid; it scores {grade.score!r}")
        elif grade.defect or not grade.reason.strip():
            wrong.append(f"{grade.name} must be rejected with a reason: {grade.reason}")
    return wrong


def _unique(grades: Sequence[Grade]) -> list[Grade]:
    """Return the grades, with each grader defect only once; its name lists the submissions."""
    names: dict[str | None, list[str]] = {}
    for grade in grades:
        if grade.defect:
            names.setdefault(grade.reason, []).append(grade.name)
    unique = [grade for grade in grades if not grade.defect or names[grade.reason][0] == grade.name]
    shown = {reason: ", ".join(first(names[reason], 3)) for reason in names}
    return [replace(grade, name=shown[grade.reason]) if grade.defect else grade for grade in unique]


def _expected(golden: Mapping[str, Any]) -> dict[str, float]:
    return {**golden["scores"], **dict.fromkeys(golden["no_score"], math.nan)}


def _difference(name: str, wanted: float, grade: Grade | None) -> str | None:
    if grade is None:
        return f"{name} is in golden.json, but not among the synthetic submissions"
    if grade.score is None:
        return f"{grade.name} must score {wanted!r}; it is invalid: {grade.reason}"
    same = (
        math.isnan(grade.score)
        if math.isnan(wanted)
        else math.isclose(grade.score, wanted, rel_tol=1e-9, abs_tol=TOLERANCE)
    )
    return None if same else f"{grade.name} must score {wanted!r}; it scores {grade.score!r}"
