"""Shows contamination: whether agents score higher on competitions whose texts a base model knows.

A model's familiarity with a text is the mean probability that it gives to the text's true tokens, each given the
preceding ones, over at most ``POSITIONS`` positions. Familiarity with a competition is the mean over its texts. A run's
score is normalised: 0 is the sample submission's score or worse, 1 the gold threshold or better.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import fmean

from pytest_mlebench.catalog import Competition
from pytest_mlebench.errors import UsageError
from pytest_mlebench.extras.audit.completions import CHARACTERS, TOP, CompletionsServer
from pytest_mlebench.io.progress import Note, Reporter
from pytest_mlebench.io.values import write_json
from pytest_mlebench.records.outcome import TWIN_DATA
from pytest_mlebench.records.record import RunRecord
from pytest_mlebench.reports.plots import svg
from pytest_mlebench.results.findings import Correlation, Knowledge, TextKnown, in_words

POSITIONS = 1000
FEWEST = 4
"""Minimum competitions for a correlation with a confidence interval."""
_SUFFIXES = (".md", ".txt")
_MAX_TEXT = 4 << 20


def texts_of(competition_ids: Iterable[str], folder: Path) -> dict[str, dict[str, str]]:
    """Return each competition's texts by name: ``<id>.md``, ``<id>.txt``, and such files below a folder ``<id>``.

    Raises UsageError if a file cannot be read.
    """
    found: dict[str, dict[str, str]] = {}
    for id in competition_ids:
        files = [folder / f"{id}{suffix}" for suffix in _SUFFIXES]
        nested = sorted((folder / id).rglob("*")) if (folder / id).is_dir() else []
        files += [path for path in nested if path.suffix in _SUFFIXES]
        texts = {path.relative_to(folder).as_posix(): _read(path) for path in files if path.is_file()}
        if texts := {name: text for name, text in texts.items() if text.strip()}:
            found[id] = texts
    return found


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_MAX_TEXT).decode("utf-8", "replace")
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error


def measure(
    texts: Mapping[str, Mapping[str, str]],
    server: CompletionsServer,
    scores: Mapping[str, Mapping[str, float]],
    cache: Path,
    reporter: Reporter,
) -> list[Knowledge]:
    """Measure how familiar a model is with each competition's texts, and add the ``scores`` on these competitions.

    The server's answers are cached in the folder ``cache``, so that no question is asked twice.
    """
    found = []
    for id, by_name in texts.items():
        means: dict[str, TextKnown] = {}
        for name, text in by_name.items():
            if values := _answer(text, server, cache)[:POSITIONS]:
                means[name] = TextKnown(len(values), fmean(values))
        if means:
            reached = {agent: by_id[id] for agent, by_id in scores.items() if id in by_id}
            found.append(Knowledge(id, fmean(known.mean for known in means.values()), means, reached))
            reporter(Note(f"{id}: {found[-1].familiarity:.3f} over {len(means)} of {len(by_name)} texts"))
    return found


def _answer(text: str, server: CompletionsServer, cache: Path) -> list[float]:
    asked = [server.url.rstrip("/"), server.model]
    digest = hashlib.sha256(json.dumps([*asked, TOP, CHARACTERS, text[:CHARACTERS]]).encode()).hexdigest()
    path = cache / f"{digest}.json"
    with suppress(OSError, ValueError, KeyError, TypeError):  # not cached, or truncated
        return [float(value) for value in json.loads(path.read_text(encoding="utf-8"))["probabilities"]]
    values = [round(value, 6) for value in server.probabilities(text)]
    try:
        cache.mkdir(parents=True, exist_ok=True)
        write_json(path, {"asked": asked, "probabilities": values})
    except OSError as error:
        raise UsageError(f"answers cannot be cached in {cache}: {error.strerror}") from error
    return values


def normalised(score: float, competition: Competition) -> float | None:
    """Scale a score to 0 (sample submission) to 1 (gold); None if the sample submission is not worse than gold."""
    sample, gold = competition.sample_submission_score, competition.leaderboard.gold
    if (
        sample is None
        or not math.isfinite(sample)
        or gold == sample
        or (gold < sample) is not competition.lower_is_better
    ):
        return None
    return min(1.0, max(0.0, (score - sample) / (gold - sample)))


def scores(
    records: Iterable[RunRecord], find: Callable[[str], Competition | None]
) -> tuple[dict[str, dict[str, float]], dict[str, str]]:
    """Return the mean normalised score by agent and competition, and why other competitions have none."""
    every: dict[str, dict[str, list[float]]] = {}
    left_out: dict[str, str] = {}
    for record in records:
        id = record.competition_id
        competition = find(id)
        if competition is None:
            left_out[id] = "not in the catalogue"
        elif record.is_twin:
            left_out.setdefault(id, TWIN_DATA)
        elif record.score is None or not math.isfinite(record.score):
            left_out.setdefault(id, "no run has a score")
        elif (value := normalised(record.score, competition)) is None:
            left_out[id] = "its sample submission has no score worse than gold"
        else:
            every.setdefault(record.agent, {}).setdefault(id, []).append(value)
    found = {agent: {id: fmean(values) for id, values in by_id.items()} for agent, by_id in every.items()}
    scored = {id for by_id in found.values() for id in by_id}
    return found, {id: why for id, why in left_out.items() if id not in scored}


def correlation(agent: str, knowledge: Sequence[Knowledge]) -> Correlation | None:
    """Correlate familiarity and scores; None for too few competitions, or if all values of either are equal."""
    from scipy.stats import pearsonr

    pairs = [(known.familiarity, known.scores[agent]) for known in knowledge if agent in known.scores]
    if len(pairs) < FEWEST or any(len(set(values)) < 2 for values in zip(*pairs, strict=True)):
        return None
    result = pearsonr(*zip(*pairs, strict=True))
    interval = result.confidence_interval(0.95)
    return Correlation(agent, len(pairs), float(result.statistic), float(interval.low), float(interval.high))


_WIDTH, _LEFT, _RIGHT, _TOP, _PLOT = 560, 48, 40, 34, 260
_TICKS, _LINE = 5, 16


def familiarity_plot(
    model: str, knowledge: Sequence[Knowledge], agents: Collection[str], correlations: Sequence[Correlation]
) -> svg.Plot:
    """Plot a mark for each agent and competition: familiarity to the right, score upwards, with gold at the top."""
    largest = max((known.familiarity for known in knowledge), default=0.0)
    distance = next(step for step in (0.02, 0.05, 0.1, 0.2) if step * _TICKS >= largest)
    bottom = _TOP + _PLOT
    body = [svg.text(-_LEFT + 8, 14, "score: 0 % is the sample submission, 100 % is gold", "s f-muted")]
    body += svg.grid(_PLOT, bottom, _TICKS, distance, "")
    body.append(
        svg.text(
            "50%", bottom + 32, f"mean probability that {svg.fitting(model, 220)} gives to true tokens", "s m f-muted"
        )
    )
    texts = {one.agent: in_words(one) for one in correlations}
    for number, agent in enumerate(agents):
        for known in knowledge:
            if (score := known.scores.get(agent)) is not None:
                mark = svg.marker(number, svg.at(known.familiarity / (distance * _TICKS)), bottom - _PLOT * score)
                words = f"{agent} on {known.competition_id}: familiarity {known.familiarity:.3f}, score {score:.2f}"
                body.append(svg.named(words, mark))
        y = bottom + 54 + _LINE * number
        body.append(svg.marker(number, 6, y - 4))
        label = f"{svg.fitting(agent, 160)}: {texts.get(agent, 'no correlation: too few competitions, or all equal')}"
        body.append(svg.named(agent, svg.text(18, y, label)))
    panel = svg.Panel(
        name="familiarity-0",
        title="Scores and familiarity",
        description="; ".join(f"{agent}: {words}" for agent, words in texts.items()) or "no correlation",
        width=_WIDTH,
        height=bottom + 54 + _LINE * len(agents),
        body="".join(body),
        margins=(_LEFT, _RIGHT),
    )
    caption = (
        "Each mark is a competition: the mean score of an agent's runs on it, against a base model's familiarity with "
        "its texts. A positive correlation suggests contamination, but a task can be both well known and easy."
    )
    return svg.Plot(name="familiarity", title="Scores and familiarity", caption=caption, panels=[panel], columns=1)
