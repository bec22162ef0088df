"""Plots of run groups as self-contained SVG, for the HTML report and as files."""

from __future__ import annotations

from pathlib import Path

from pytest_mlebench.errors import UsageError
from pytest_mlebench.reports.plots.heat_map import heat_map
from pytest_mlebench.reports.plots.medal_rates import medal_rates
from pytest_mlebench.reports.plots.over_time import cost_plot, over_time_plot, time_plot
from pytest_mlebench.reports.plots.runs import known_leaderboards, score_plot
from pytest_mlebench.reports.plots.svg import Panel, Plot
from pytest_mlebench.results.overview import Overview
from pytest_mlebench.results.published import published_results
from pytest_mlebench.results.timelines import timelines

__all__ = [
    "Panel",
    "Plot",
    "cost_plot",
    "heat_map",
    "medal_rates",
    "over_time_plot",
    "plots",
    "score_plot",
    "time_plot",
    "write_plots",
]


def plots(view: Overview) -> list[Plot]:
    """All plots of run groups; none if no run has a record."""
    records = view.records
    if not records:
        return []
    # Rates on data that is not known to be the reference's do not stand beside the published ones.
    published = () if any(summary.unverified for summary in view.summaries) else published_results()
    drawn = [medal_rates(view.summaries, published), heat_map(records, view.planned)]
    if boards := known_leaderboards(records):
        drawn.append(score_plot(records, boards))
    further = [over_time_plot(records, timelines(records)), time_plot(records), cost_plot(records)]
    return [*drawn, *(plot for plot in further if plot is not None)]


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
