"""The schema of ``competition.yaml``. Errors name the key and what was expected.

Its leaderboard is the private one, with the medals that Kaggle's progression rules award on it.

The checks are our own: importing pydantic would take longer than reading the YAML of all bundled competitions.
"""

from __future__ import annotations

import difflib
import math
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from operator import index
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from pytest_mlebench.defaults import MEDALS, Medal
from pytest_mlebench.errors import CompetitionError, reason
from pytest_mlebench.io.files import read_regular, regular_bytes
from pytest_mlebench.io.units import listed
from pytest_mlebench.io.values import LOADER, load_yaml


def medal_ranks(teams: int) -> dict[Medal, int]:
    """The last rank (1 is best) that earns each medal among this many teams.

    Source: Kaggle's progression rules. Ranks are rounded down and are at least 1.

    >>> medal_ranks(1500)
    {'gold': 13, 'silver': 75, 'bronze': 150}
    """
    teams = index(teams)
    if teams < 1:
        raise ValueError(f"a leaderboard has at least one team, not {teams}")
    # Integers throughout: 0.2 % of 1500 is 3, not 2.9999.
    if teams < 100:
        ranks = (teams * 10 // 100, teams * 20 // 100, teams * 40 // 100)
    elif teams < 250:
        ranks = (10, teams * 20 // 100, teams * 40 // 100)
    elif teams < 1000:
        ranks = (10 + teams * 2 // 1000, 50, 100)
    else:
        ranks = (10 + teams * 2 // 1000, teams * 5 // 100, teams * 10 // 100)
    return {medal: max(1, rank) for medal, rank in zip(MEDALS, ranks, strict=True)}


@dataclass(frozen=True, kw_only=True)
class Leaderboard:
    """The parts of a private leaderboard that grading needs.

    ``percentiles[p - 1]`` is the score at rank ceil(p % of the teams), best first.

    >>> board = Leaderboard.from_scores([0.9, 0.8, 0.7, 0.6, 0.5], lower_is_better=False)
    >>> board.medal(0.95), board.medal(0.85), board.medal(0.1)
    ('gold', 'bronze', None)
    """

    teams: int
    lower_is_better: bool
    gold: float
    silver: float
    bronze: float
    median: float
    percentiles: tuple[float, ...] = ()
    source: str = ""

    @classmethod
    def from_scores(cls, scores: Iterable[float], *, lower_is_better: bool, source: str = "") -> Leaderboard:
        """Build the leaderboard from the final scores of all teams, in any order.

        The median of an even number of scores is the mean of the middle two. Raises ValueError if there are no scores,
        or if one of them is not a finite number.
        """
        ranked = sorted((float(score) for score in scores), reverse=not lower_is_better)
        if invalid := [score for score in ranked if not math.isfinite(score)]:
            raise ValueError(f"a team's score must be a finite number, not {invalid[0]}: leave such teams out")
        n = len(ranked)
        thresholds = {medal: ranked[rank - 1] for medal, rank in medal_ranks(n).items()}
        median = (ranked[(n - 1) // 2] + ranked[n // 2]) / 2
        percentiles = tuple(ranked[math.ceil(p * n / 100) - 1] for p in range(1, 101))
        return cls(
            teams=n,
            lower_is_better=lower_is_better,
            median=median,
            percentiles=percentiles,
            source=source,
            **thresholds,
        )

    def threshold(self, medal: Medal) -> float:
        """The worst score that earns the medal."""
        return {"gold": self.gold, "silver": self.silver, "bronze": self.bronze}[medal]

    def medal(self, score: float | None) -> Medal | None:
        """The medal that a score earns; a score equal to the threshold is enough. None for no score and for NaN."""
        if score is None or math.isnan(score):
            return None
        return next((medal for medal in MEDALS if self.earns(medal, score)), None)

    def earns(self, medal: Medal, score: float) -> bool:
        """Whether a score earns this medal or a better one."""
        threshold = self.threshold(medal)
        return score <= threshold if self.lower_is_better else score >= threshold

    def is_above_median(self, score: float | None) -> bool:
        """Whether the score is strictly better than the median."""
        if score is None or math.isnan(score):
            return False
        return score < self.median if self.lower_is_better else score > self.median

    def percentile(self, score: float | None) -> float | None:
        """The percentage of teams, as a whole number, that the score beats or equals (99 is the top 1 %)."""
        if score is None or math.isnan(score) or not self.percentiles:
            return None
        sign = 1.0 if self.lower_is_better else -1.0
        first_met = bisect_left([sign * p for p in self.percentiles], sign * score)
        return float(max(0, len(self.percentiles) - 1 - first_met))


class _Wrong(Exception):
    """A problem with a value, and its key within the value."""

    def __init__(self, problem: str, key: str = "") -> None:
        super().__init__(problem)
        self.key = key


def _expected(what: str, found: Any, key: str = "") -> _Wrong:
    return _Wrong(f"expected {what}, found {shown(found)}", key)


def shown(value: Any) -> str:
    """A short description of a YAML value of any size, for an error."""
    match value:
        case None:
            return "nothing"
        case bool():
            return f"the boolean {str(value).lower()}"
        case int() | float():
            return f"the number {value!r:.40}"
        case str():
            return repr(value if len(value) <= 60 else value[:57] + "...")
        case Mapping():
            return "a mapping"
        case list() | tuple():
            return "a list"
    return f"a {type(value).__name__}"


def _check_at(place: str, check: Check, value: Any) -> None:
    """Check a value, and prefix the key of a ``_Wrong`` with the place."""
    try:
        check(value)
    except _Wrong as wrong:
        wrong.key = f"{place}{wrong.key}"
        raise


Check = Callable[[Any], None]

SPLITS = ("low", "medium", "high", "dev", "smoke")
SPLIT_ALIASES = ("lite", "all", "core")
SOURCES = ("kaggle", "bundled")
DIRECTIONS = ("lower", "higher")
EXCEPTIONS = ("groups_stay_apart", "rows_are_matched", "guesses_earn_nothing", "cells_are_kept", "answers_are_invalid")
"""The checks of the gate that a competition may fail if it states a reason; for leaks, use ``known_leak``."""
MEDAL_VALIDITY = ("apply", "with care", "indicative")
"""How much a leaderboard's medals still mean in a corrected version. ``thresholds_of`` has the rule."""
DIFFERENCES = {
    "metric": "indicative",
    "labels": "indicative",
    "easier": "indicative",
    "grouping": "with care",
    "harder": "with care",
    "noisier": "with care",
}
"""How the graded test can differ from Kaggle's, and how valid its medals then are. The differences are another metric,
other labelling or an easier test; stricter grouping than Kaggle's (or unknown grouping), a harder test, or one so small
that its score is noisy."""
CATEGORIES = (
    *("3D", "Audio Classification", "Forecasting", "Image Classification", "Image Regression", "Image Segmentation"),
    *("Image To Image", "Image To Text", "Multimodal", "Object Detection", "Question Answering", "Recommendation"),
    *("Seq->Seq", "Signal Processing", "Tabular", "Text Classification", "Text Ranking", "Text Regression", "Video"),
)
METRICS = (
    # scikit-learn's names of scorers, without neg_
    "accuracy average_precision balanced_accuracy f1 f1_macro f1_micro f1_samples f1_weighted jaccard log_loss "
    "matthews_corrcoef mean_absolute_error mean_squared_error mean_squared_log_error median_absolute_error "
    "precision r2 recall roc_auc root_mean_squared_error root_mean_squared_log_error zero_one_loss "
    # other metrics, including those of the bundled competitions
    "bias_weighted_roc_auc dice_and_hausdorff_3d f0.5 f1_located_characters fbeta_0.5 global_dice kendall_tau "
    "laplace_log_likelihood lwlrap mean_angular_error mean_average_precision_3d mean_average_precision_at_12 "
    "mean_average_precision_at_5 mean_average_precision_at_iou_0.4 mean_average_precision_at_iou_0.5 "
    "mean_average_precision_at_iou_0.5_to_0.95 mean_columnwise_roc_auc mean_columnwise_root_mean_squared_error "
    "mean_columnwise_root_mean_squared_log_error mean_columnwise_spearman_correlation mean_dice mean_kl_divergence "
    "mean_levenshtein_distance mean_log_mean_absolute_error mean_precision_3d "
    "mean_of_50th_and_95th_percentile_distance mean_word_jaccard pearson_correlation probabilistic_f1 "
    "quadratic_weighted_kappa weighted_log_loss weighted_roc_auc word_error_rate"
).split()

_PERCENTILES = re.compile(r"^ +percentiles: \[([-0-9., \n]+)\]$", re.MULTILINE)
_MAX_DEPTH = 20
_MAX_BYTES = 1 << 20
_LARGEST = 10**300
"""Exclusive limit of integers, so that they can be converted to floats."""
_SMALL = 4000
"""Files with at most this many characters cannot nest deeply enough to exhaust the stack of libyaml's parser."""

# Each of the 80 competitions has a leaderboard of 100 numbers: libyaml reads them ten times as fast.


def read_yaml(path: Path) -> Any:
    """The content of a YAML file; raises CompetitionError with a one-line message. Rejects aliases and deep nesting."""
    try:
        text = read_regular(path, _MAX_BYTES)
    except (OSError, ValueError) as error:
        raise CompetitionError(f"{path}: cannot be read: {reason(error)}") from error
    try:
        if len(text) > _SMALL or re.search(r"[&*]\w", text):
            _reject_bombs(text, path)
        if duplicate := _duplicate_key(text):
            raise CompetitionError(f"{path}, line {duplicate[1]}: duplicate key {duplicate[0]!r}")
        return _load(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f", line {mark.line + 1}" if mark else ""
        raise CompetitionError(f"{path}{line}: is not valid YAML: {error.problem or error.context}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise CompetitionError(f"{path}: is not valid YAML: {' '.join(str(error).split())}") from error


def _duplicate_key(text: str) -> tuple[str, int] | None:
    """The first duplicate top-level key, and its line; YAML itself would use the last one."""
    seen = set()
    for match in re.finditer(r"^(\w+):(?=\s)", text, re.MULTILINE):
        if match[1] in seen:
            return match[1], text.count("\n", 0, match.start()) + 1
        seen.add(match[1])
    return None


def _load(text: str) -> Any:
    """Parse YAML. Python itself parses a leaderboard's 100 percentiles, which would take nearly all of the time."""
    if match := _PERCENTILES.search(text):
        values = load_yaml(text[: match.start(1)] + text[match.end(1) :])
        try:
            if values["leaderboard"]["percentiles"] == []:
                values["leaderboard"]["percentiles"] = [float(number) for number in match[1].split(",")]
                return values
        except (TypeError, KeyError, ValueError):
            pass
    return load_yaml(text)


def _reject_bombs(text: str, path: Path) -> None:
    depth = 0
    for event in yaml.parse(text, Loader=LOADER):
        if isinstance(event, yaml.AliasEvent):
            raise CompetitionError(f"{path}: *{event.anchor}: aliases are not supported; repeat the value")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _MAX_DEPTH:
            raise CompetitionError(f"{path}: is nested deeper than {_MAX_DEPTH} levels")


def has_leaderboard(path: Path) -> bool:
    """Whether a file has a top-level key ``leaderboard``, and so may be a competition of ours. It is not parsed."""
    try:
        text = regular_bytes(path, _MAX_BYTES).decode(errors="replace")  # ``read_yaml`` reports what is invalid
    except (OSError, ValueError):
        return False
    return re.search(r"""^["']?leaderboard["']?\s*:|^\s*\{.*leaderboard""", text, re.MULTILINE) is not None


def check(values: Any, file: Path) -> dict[str, Any]:
    """The fields of a Competition from the values in its file.

    Raises CompetitionError with a line for each problem: file, key, what was expected and what was found.
    """
    if not isinstance(values, Mapping):
        raise CompetitionError(f"{file}: must be a mapping of keys, for example `id: {file.parent.name}`")
    if problems := list(_problems(values, file.parent.name)):
        raise CompetitionError("\n".join(f"{file}: {problem}" for problem in problems))
    fields = {key: value for key, value in values.items() if value is not None}
    for key in ("data_types", "known_issues", "requires", "changes"):
        fields[key] = tuple(fields.get(key, ()))
    if "sample_submission_score" in fields:
        fields["sample_submission_score"] = float(fields["sample_submission_score"])
    numbers = fields["leaderboard"]
    fields["leaderboard"] = Leaderboard(
        teams=numbers["teams"],
        lower_is_better=fields["direction"] == "lower",
        percentiles=tuple(map(float, numbers.get("percentiles") or ())),
        source=numbers.get("source") or "",
        **{key: float(numbers[key]) for key in ("gold", "silver", "bronze", "median")},
    )
    return fields


def check_override(values: Mapping[str, Any], own: Any, file: Path) -> dict[str, Any]:
    """The fields of a later version's Competition: its ``own`` keys override the common ``values``.

    Keys that its files may invalidate are not inherited, such as checksums of prepared data, issues and leaks. Raises
    CompetitionError like ``check``.
    """
    if not isinstance(own, Mapping):
        raise CompetitionError(f"{file}: must be a mapping of keys, for example `changes: [...]`")
    if not any(own.get(key) for key in _VERSION_NOTES):
        raise CompetitionError(f"{file}: changes: is missing: list what was corrected, or known_issues that remain")
    if not own.get("thresholds"):
        raise CompetitionError(f"{file}: thresholds: is missing: state whether medals still mean the same")
    inherited = {key: value for key, value in values.items() if key not in _NOT_INHERITED}
    if zip_digest := (values.get("checksums") or {}).get("zip"):
        inherited["checksums"] = {"zip": zip_digest}
    try:
        return check({**inherited, **own}, file.parent.parent / file.name)
    except CompetitionError as error:
        raise CompetitionError(str(error).replace(str(file.parent.parent / file.name), str(file))) from None


def thresholds_of(differences: Mapping[str, str]) -> str:
    """The value of ``thresholds`` that follows from the test's differences from Kaggle's.

    Thresholds ``apply`` only if metric, labelling and grouping are the same, and the test is not easier, harder or
    noisier than Kaggle's. With another metric or labelling, or an easier test, a medal is ``indicative``. With any
    other difference, the thresholds must be read ``with care``.

    >>> thresholds_of({}), thresholds_of({"harder": "Photographs that look alike are kept together."})
    ('apply', 'with care')
    """
    return max((DIFFERENCES[kind] for kind in differences), key=MEDAL_VALIDITY.index, default=MEDAL_VALIDITY[0])


def close_matches(name: str, choices: Iterable[str]) -> list[str]:
    """At most three choices that are similar to the name, the closest first."""
    names = sorted(choices)
    lowered = {n.lower(): n for n in names}
    close = [lowered[n] for n in difflib.get_close_matches(name.lower(), lowered, n=3, cutoff=0.5)]
    return close + [n for n in names if name.lower() in n.lower() and n not in close][: 3 - len(close)]


def _problems(values: Mapping[Any, Any], folder: str) -> Iterator[str]:
    yield from (_unknown_key(key, _CHECKS) for key in values if key not in _CHECKS)
    if missing := [key for key in _REQUIRED if values.get(key) is None]:
        yield f"lacks {', '.join(missing)}"
    for key, check in _CHECKS.items():
        if values.get(key) is not None:
            try:
                check(values[key])
            except _Wrong as wrong:
                yield f"{key}{wrong.key}: {wrong}"
    if isinstance(id := values.get("id"), str) and id != folder:
        yield f"id: expected the folder's name, {folder!r}, found {id!r}"
    differences = values.get("differences") or {}
    if isinstance(differences, Mapping) and differences.keys() <= DIFFERENCES.keys():
        given, meant = values.get("thresholds") or MEDAL_VALIDITY[0], thresholds_of(differences)
        if given in MEDAL_VALIDITY and given != meant:
            named = f"differences in {' and '.join(differences)}" if differences else "no differences"
            yield f"thresholds: expected {meant!r} with {named}, found {given!r}"
    if isinstance(leaderboard := values.get("leaderboard"), Mapping) and values.get("direction") in DIRECTIONS:
        try:
            _check_order(leaderboard, lower=values["direction"] == "lower")
        except _Wrong as wrong:
            yield f"leaderboard{wrong.key}: {wrong}"


def _unknown_key(key: Any, known: Iterable[str]) -> str:
    close = close_matches(str(key), known)
    hint = f"did you mean {listed(close, 'or')}?" if close else f"the keys are {', '.join(known)}"
    return f"unknown key {shown(key)}; {hint}"


def _text(value: Any) -> None:
    if not isinstance(value, str):
        quoted = " in quotes" if isinstance(value, int | float) else ""
        raise _expected(f"text{quoted}", value)


def _satisfies(what: str, is_valid: Callable[[Any], object], *, text: bool = False) -> Check:
    """A check that ``is_valid`` accepts a value; with ``text``, first that it is a string."""

    def check(value: Any) -> None:
        if text:
            _text(value)
        if not is_valid(value):
            raise _expected(what, value)

    return check


_title = _satisfies("text of one line", lambda value: value.strip() and "\n" not in value, text=True)
_id = _satisfies("letters, digits, '-', '_' and '.'", re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*").fullmatch, text=True)
_module = _satisfies("the name of a module, as in `import pyarrow`", str.isidentifier, text=True)
_bool = _satisfies("true or false", lambda value: isinstance(value, bool))
_count = _satisfies("a whole number above 0", lambda value: type(value) is int and value > 0)
_digest = _satisfies(
    "an md5 digest of 32 hexadecimal digits",
    lambda value: isinstance(value, str) and re.fullmatch(r"[0-9a-f]{32}", value),
)


def _is_number(value: Any) -> bool:
    if isinstance(value, int):
        return not isinstance(value, bool) and abs(value) < _LARGEST
    return isinstance(value, float) and math.isfinite(value)


def _number(value: Any) -> None:
    if not _is_number(value):
        # YAML parses 1e-5 as a string
        hint = " with a point, as in 1.0e-5" if isinstance(value, str) and re.fullmatch(r"-?\d+e-?\d+", value) else ""
        raise _expected(f"a finite number{hint}", value)


def _are_floats(values: Any) -> bool:
    """Whether this is a list of finite floats, as percentiles are. This is faster than checking each of them."""
    return isinstance(values, list) and set(map(type, values)) == {float} and all(map(math.isfinite, values))


def _percentiles(values: Any) -> None:
    if not _are_floats(values):
        _list_of(_number, "100 numbers")(values)


def _score(value: Any) -> None:
    if not (isinstance(value, float) and math.isnan(value)):  # valid, but without a score
        _number(value)


def _list_of(check: Check, what: str) -> Check:
    def check_list(values: Any) -> None:
        if not isinstance(values, list):
            raise _expected(f"a list of {what}", values)
        for position, value in enumerate(values):
            _check_at(f"[{position}]", check, value)

    return check_list


def _one_of(choices: Iterable[str]) -> Check:
    return _satisfies(" or ".join(map(repr, choices)), lambda value: value in choices)


def _known_or_custom(what: str, known: Iterable[str], reserved: Iterable[str] = ()) -> Check:
    """A check for a known name, or for a custom name that cannot be a misspelling of a known one."""

    def check(value: Any) -> None:
        _title(value)
        if value in known:
            return
        if value in reserved:
            raise _Wrong(f"{value!r} is an alias of other {what}s: use one of them, or choose another name")
        if close := next((name for name in known if _is_misspelling(value, name)), None):
            raise _Wrong(f"unknown {what} {value!r}; did you mean {close}?")

    return check


def _is_misspelling(name: str, known: str) -> bool:
    if name.lower() == known.lower():
        return True
    if re.search(r"\d", name):
        return False  # "dev2" is intended
    from rapidfuzz.distance import OSA

    return OSA.distance(name.lower(), known.lower()) <= (1 if len(known) < 8 else 2)


def _below(*sides: str) -> Check:
    def is_below(value: str) -> bool:
        parts = PurePosixPath(value).parts
        return len(parts) > 1 and parts[0] in sides and ".." not in parts

    return _satisfies(f"a path below {' or '.join(f'{side}/' for side in sides)}", is_below, text=True)


def _mapping(checks: Mapping[str, Check], required: Iterable[str] = ()) -> Check:
    def check_mapping(values: Any) -> None:
        if not isinstance(values, Mapping):
            raise _expected(f"a mapping with {', '.join(required or checks)}", values)
        if missing := [key for key in required if values.get(key) is None]:
            raise _Wrong("is missing", f".{missing[0]}")
        for key, value in values.items():
            if key not in checks:
                raise _Wrong(_unknown_key(key, checks))
            if value is not None:
                _check_at(f".{key}", checks[key], value)

    return check_mapping


def _by_name(what: str, check_name: Check, check: Check) -> Check:
    """A check for a mapping with any names as keys."""

    def check_mapping(values: Any) -> None:
        if not isinstance(values, Mapping):
            raise _expected(f"a mapping of {what}", values)
        for name, value in values.items():
            place = f"[{shown(name)}]"
            _check_at(place, check_name, name)
            _check_at(place, check, value)

    return check_mapping


def _check_order(leaderboard: Mapping[Any, Any], *, lower: bool) -> None:
    """Check that better scores come first: best, gold, silver, bronze, median, worst, and the percentiles."""

    def is_better(one: float, other: float) -> bool:
        return one < other if lower else one > other

    scores = {key: leaderboard[key] for key in _THRESHOLDS if _is_number(leaderboard.get(key))}
    for (better, first), (key, second) in pairwise(scores.items()):
        if is_better(second, first):
            side, word = ("at least", "lower") if lower else ("at most", "higher")
            raise _expected(f"{side} the score of {better}, {first!r}, since {word} is better", second, f".{key}")
    percentiles = leaderboard.get("percentiles")
    if not isinstance(percentiles, list) or not (_are_floats(percentiles) or all(map(_is_number, percentiles))):
        return
    if len(percentiles) not in (0, 100):
        raise _expected("100 scores (at the top 1 %, 2 %, … 100 %)", len(percentiles), ".percentiles")
    if percentiles == sorted(percentiles, reverse=not lower):
        return
    for position, (first, second) in enumerate(pairwise(percentiles), 1):
        if is_better(second, first):
            raise _expected(f"a score no better than the one before, {first!r}", second, f".percentiles[{position}]")


def _regex(value: Any) -> None:
    _text(value)
    try:
        groups = re.compile(value).groups
    except re.error as error:
        raise _Wrong(f"is not a regular expression: {error}") from error
    if groups < 1:
        raise _expected("a regular expression with a group in parentheses", value)


_group = _mapping(
    {"column": _title, "train": _below("public"), "test": _below("public", "private"), "pattern": _regex},
    required=("column", "train", "test"),
)
_DIGESTS = _by_name("files to md5 digests", _text, _digest)
_THRESHOLDS = ("best", "gold", "silver", "bronze", "median", "worst")
_REQUIRED = ("id", "title", "split", "category", "metric", "direction", "leaderboard")
_VERSION_NOTES = ("changes", "known_issues", "contaminated")
"""A later version must have at least one of these keys."""
_NOT_INHERITED = (
    *("checksums", "known_issues", "known_leak", "sample_submission_score", "groups", "exceptions"),
    *("thresholds", "differences"),
)
_CHECKS: dict[str, Check] = {
    "id": _id,
    "title": _title,
    "url": _text,
    "split": _known_or_custom("split", SPLITS, reserved=SPLIT_ALIASES),
    "category": _known_or_custom("category", CATEGORIES),
    "data_types": _list_of(_text, "text"),
    "kernel_only": _bool,
    "metric": _known_or_custom("metric", METRICS),
    "direction": _one_of(DIRECTIONS),
    "source": _one_of(SOURCES),
    "requires": _list_of(_module, "names of modules"),
    "answers": _below("private"),
    "perfect_submission": _below("private"),
    "sample_submission": _below("public", "private"),
    "sample_submission_score": _score,
    "answers_rows": _count,
    "raw_scale": _text,
    "checksums": _mapping({"zip": _digest, "public": _DIGESTS, "private": _DIGESTS}),
    "known_issues": _list_of(_text, "text"),
    "known_leak": _text,
    "groups": _by_name("names to column, train and test", _title, _group),
    "exceptions": _mapping(dict.fromkeys(EXCEPTIONS, _title)),
    "changes": _list_of(_title, "text of one line"),
    "thresholds": _one_of(MEDAL_VALIDITY),
    "differences": _mapping(dict.fromkeys(DIFFERENCES, _title)),
    "contaminated": _title,
    "leaderboard": _mapping(
        {
            "teams": _count,
            **dict.fromkeys(_THRESHOLDS, _number),
            "source": _text,
            "percentiles": _percentiles,
        },
        required=("teams", "gold", "silver", "bronze", "median"),
    ),
}
