"""Normalised scores against a base model's familiarity with competitions' texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pytest_mlebench.reports.plots.svg import Panel, Plot, at, fitting, grid, marker, named, text
from pytest_mlebench.results.findings import Correlation, Knowledge, in_words

_WIDTH, _LEFT, _RIGHT, _TOP, _PLOT = 560, 48, 40, 34, 260
_TICKS = 5
_LINE = 16


def familiarity_plot(
    model: str,
    knowledge: Sequence[Knowledge],
    scores: Mapping[str, Mapping[str, float]],
    correlations: Sequence[Correlation],
) -> Plot:
    """A mark for each agent and competition: to the right what the model knows better, at the top gold."""
    largest = max((known.familiarity for known in knowledge), default=0.0)
    distance = next(step for step in (0.02, 0.05, 0.1, 0.2) if step * _TICKS >= largest)
    bottom = _TOP + _PLOT
    body = [text(-_LEFT + 8, 14, "score: 0 % is the sample submission’s, 100 % gold", "s f-muted")]
    body += grid(_PLOT, bottom, _TICKS, distance, "")
    body.append(
        text("50%", bottom + 32, f"mean probability that {fitting(model, 220)} gives to true tokens", "s m f-muted")
    )
    said = {one.agent: in_words(one) for one in correlations}
    for number, (agent, own) in enumerate(scores.items()):
        for known in knowledge:
            if (score := own.get(known.competition_id)) is not None:
                mark = marker(number, at(known.familiarity / (distance * _TICKS)), bottom - _PLOT * score)
                words = f"{agent} on {known.competition_id}: familiarity {known.familiarity:.3f}, score {score:.2f}"
                body.append(named(words, mark))
        y = bottom + 54 + _LINE * number
        body.append(marker(number, 6, y - 4))
        label = f"{fitting(agent, 160)}: {said.get(agent, 'no correlation: too few competitions, or all alike')}"
        body.append(named(agent, text(18, y, label)))
    panel = Panel(
        name="familiarity-0",
        title="Scores and familiarity",
        description="; ".join(f"{agent}: {words}" for agent, words in said.items()) or "no correlation",
        width=_WIDTH,
        height=bottom + 54 + _LINE * len(scores),
        body="".join(body),
        margins=(_LEFT, _RIGHT),
    )
    caption = (
        "Each mark is a competition: the mean score of an agent's runs on it, against how well a base model knows its "
        "texts. A positive correlation hints at contamination; that a task is well known and easy can have one cause."
    )
    return Plot(name="familiarity", title="Scores and familiarity", caption=caption, panels=[panel], columns=1)
