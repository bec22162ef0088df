"""MLE-bench as a pytest suite: a competition is a folder, a run of an agent on it is a test, a medal is its outcome.

Import what you use from here::

    from pytest_mlebench import Bench

    group = Bench(sandbox="local").run("baseline", "smoke-digits")
    for record in group.records:
        print(record.outcome, record.score)

What is stable
    The names in ``__all__`` and their documented parameters; what ``prepare.py``, ``grade.py``, ``synthetic.py`` and
    ``twin.py`` of a competition import from ``pytest_mlebench.authoring`` and ``pytest_mlebench.errors``; options, ini
    keys and fixtures of the plugin; the command line; the files of a run group. Before a breaking change to
    them, at least one minor version warns, and the changelog announces it. Everything else may change at any time.

Importing this package imports no other module: each name is imported on first use.
"""

TYPE_CHECKING = False  # type checkers treat it as typing.TYPE_CHECKING, which is slower to import than this module

if TYPE_CHECKING:
    from pytest_mlebench._version import __version__
    from pytest_mlebench.agents.registry import Agent, AgentRegistry, Permissions, default_agents
    from pytest_mlebench.bench import Bench
    from pytest_mlebench.catalog.catalogue import Catalogue, default_catalogue
    from pytest_mlebench.catalog.competition import Competition
    from pytest_mlebench.catalog.schema import Leaderboard, medal_ranks
    from pytest_mlebench.data.dataset import Dataset, default_data_dir
    from pytest_mlebench.data.download.kaggle import KaggleDownloads
    from pytest_mlebench.data.store import DataStore
    from pytest_mlebench.errors import (
        AgentError,
        CompetitionError,
        DataError,
        InvalidSubmission,
        MLEBenchError,
        SandboxError,
        UsageError,
    )
    from pytest_mlebench.grading.grader import Grader, GradingLimits, grade
    from pytest_mlebench.io.progress import Event, Note, Reporter, Step, WarningNote
    from pytest_mlebench.records.group import RunGroup
    from pytest_mlebench.records.outcome import Ending, Limits, Outcome, Report, SandboxAccount
    from pytest_mlebench.records.record import ModelUsage, RunKey, RunRecord, Usage
    from pytest_mlebench.results import find_group, read_group
    from pytest_mlebench.results.summary import SplitSummary, summarise
    from pytest_mlebench.runs.run import RunOptions, run_agent
    from pytest_mlebench.sandbox.contract import Execution, Sandbox
    from pytest_mlebench.sandbox.docker.sandbox import DockerSandbox
    from pytest_mlebench.sandbox.local.sandbox import LocalSandbox

__all__ = [
    "Agent",
    "AgentError",
    "AgentRegistry",
    "Bench",
    "Catalogue",
    "Competition",
    "CompetitionError",
    "DataError",
    "DataStore",
    "Dataset",
    "DockerSandbox",
    "Ending",
    "Event",
    "Execution",
    "Grader",
    "GradingLimits",
    "InvalidSubmission",
    "KaggleDownloads",
    "Leaderboard",
    "Limits",
    "LocalSandbox",
    "MLEBenchError",
    "ModelUsage",
    "Note",
    "Outcome",
    "Permissions",
    "Report",
    "Reporter",
    "RunGroup",
    "RunKey",
    "RunOptions",
    "RunRecord",
    "Sandbox",
    "SandboxAccount",
    "SandboxError",
    "SplitSummary",
    "Step",
    "Usage",
    "UsageError",
    "WarningNote",
    "__version__",
    "default_agents",
    "default_catalogue",
    "default_data_dir",
    "find_group",
    "grade",
    "medal_ranks",
    "read_group",
    "run_agent",
    "summarise",
]

_NAMES_BY_MODULE = {
    "_version": "__version__",
    "agents.registry": "Agent AgentRegistry Permissions default_agents",
    "bench": "Bench",
    "catalog.catalogue": "Catalogue default_catalogue",
    "catalog.competition": "Competition",
    "catalog.schema": "Leaderboard medal_ranks",
    "data.dataset": "Dataset default_data_dir",
    "data.download.kaggle": "KaggleDownloads",
    "data.store": "DataStore",
    "errors": "AgentError CompetitionError DataError InvalidSubmission MLEBenchError SandboxError UsageError",
    "grading.grader": "Grader GradingLimits grade",
    "io.progress": "Event Note Reporter Step WarningNote",
    "results": "find_group read_group",
    "results.summary": "SplitSummary summarise",
    "records.group": "RunGroup",
    "records.outcome": "Ending Limits Outcome Report SandboxAccount",
    "records.record": "ModelUsage RunKey RunRecord Usage",
    "runs.run": "RunOptions run_agent",
    "sandbox.contract": "Execution Sandbox",
    "sandbox.docker.sandbox": "DockerSandbox",
    "sandbox.local.sandbox": "LocalSandbox",
}
_MODULE_OF = {name: f"{__name__}.{module}" for module, names in _NAMES_BY_MODULE.items() for name in names.split()}

if not TYPE_CHECKING:  # a type checker would accept every name

    def __getattr__(name: str) -> object:
        if name not in _MODULE_OF:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        value = globals()[name] = getattr(import_module(_MODULE_OF[name]), name)
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
