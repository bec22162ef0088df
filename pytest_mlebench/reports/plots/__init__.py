"""Plots of run groups as self-contained SVG, for the HTML report and as files."""

from __future__ import annotations

from pathlib import Path

from pytest_mlebench.errors import UsageError
from pytest_mlebench.reports.plots.rates import cost_plot, medal_rates, over_time_plot, time_plot
from pytest_mlebench.reports.plots.runs import agents_of, heat_map, known_leaderboards, score_plot
from pytest_mlebench.reports.plots.svg import Panel, Plot, legend
from pytest_mlebench.results.overview import Overview, published_results, timelines

__all__ = [
    "Panel",
    "Plot",
    "agents_in",
    "cost_plot",
    "heat_map",
    "legend",
    "medal_rates",
    "over_time_plot",
    "plots",
    "score_plot",
    "time_plot",
    "write_plots",
]


def plots(view: Overview) -> list[Plot]:
    """All plots of run groups, the grid of outcomes first; none if no run has a record."""
    records = view.records
    if not records:
        return []
    # Rates on data that is not known to be the reference's do not stand beside the published ones.
    published = () if any(summary.unverified for summary in view.summaries) else published_results()
    agents = agents_in(view)
    drawn = [heat_map(records, view.planned, agents=agents), medal_rates(view.summaries, published, agents=agents)]
    real = [record for record in records if not record.twin]  # twins have leaderboards of their own
    if boards := known_leaderboards(real):
        drawn.append(score_plot(real, boards, agents=agents))
    further = [
        over_time_plot(records, timelines(records), agents=agents),
        time_plot(records, agents=agents),
        cost_plot(records, agents=agents),
    ]
    return [*drawn, *(plot for plot in further if plot is not None)]


def agents_in(view: Overview) -> list[str]:
    """All agents, those without a record too: an agent has the same sign in each plot."""
    return sorted({key.agent for key in view.planned} | set(agents_of(view.records)))


def write_plots(view: Overview, folder: Path) -> list[Path]:
    """Write each plot as ``<name>.svg`` and return the files; raises UsageError where it cannot."""
    drawn = {folder / f"{plot.name}.svg": plot for plot in plots(view)}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, plot in drawn.items():
            path.write_text(plot.file(), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"plots cannot be written to {folder}: {error.strerror}; name another folder") from error
    return list(drawn)
