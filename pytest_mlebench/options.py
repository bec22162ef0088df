"""The options of pytest and ``mlebench``, read into one frozen ``Settings`` object.

Each field of ``Settings`` is an option. Its value comes from the first source that has one: the command line, the
resumed run group, the ini file, the environment. The same function parses it from all sources, and errors name the
source. No heavy modules are imported here: pytest reads the settings at every start, in unrelated projects too.
"""

# ruff: noqa: RUF009 - `_option` creates a dataclass field

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from enum import Flag, auto
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_mlebench import defaults
from pytest_mlebench import option_values as parse
from pytest_mlebench.errors import UsageError, quoted, unusable
from pytest_mlebench.io.files import expanded
from pytest_mlebench.io.units import listed, parse_duration, parse_size

if TYPE_CHECKING:
    from pytest_mlebench.records.manifest import Manifest


class Trait(Flag):
    """Properties of an option."""

    FLAG = auto()
    """It has no value."""
    OPTIONAL = auto()
    """Its value may be omitted, and is then ``auto``."""
    LIST = auto()
    """It is repeatable."""
    PATH = auto()
    """Its value is a path."""
    INI = auto()
    """It also has an ini key."""
    RESTORED = auto()
    """``--resume`` restores it, because it determines what a run may use, or what it does."""
    GRANTED = auto()
    """It is a permission. The session's jobs on an engine get it too. ``--resume`` does not restore it, because neither
    a run group's files nor changed agents may grant anything."""


@dataclass(frozen=True)
class Need:
    """What an option needs in order to have an effect. ``problem`` completes an error that begins with the options'
    names; it may contain settings in braces."""

    is_met: Callable[[Settings], bool]
    problem: str


AGENT = Need(lambda s: s.has_runs, "needs an agent: add --agent=ID")
ENGINE = Need(
    lambda s: s.cluster is not None or not s.has_runs,
    "needs an engine: add --cluster=local, slurm or ray",
)
SLURM = Need(
    lambda s: s.cluster in (None, "slurm"), "is for --cluster=slurm: it has no effect with --cluster={cluster}"
)
RAY = Need(lambda s: s.cluster in (None, "ray"), "is for --cluster=ray: it has no effect with --cluster={cluster}")
GPUS = Need(lambda s: bool(s.gpus), "selects GPUs, but runs get none: add --gpus=N")
CONTAINERS = Need(lambda s: s.sandbox != "local", "is for containers: leave out --sandbox=local")
APPTAINER = Need(
    lambda s: s.sandbox == "apptainer", "is for Apptainer's images: add --sandbox=apptainer, or leave it out"
)
LLM_NETWORK = Need(lambda s: s.network == "llm", "extends --network=llm: it has no effect with --network={network}")
TWINS = Need(lambda s: s.has_twins, "is for twins: add --data=twin")
GATEWAY = Need(lambda s: s.llm_gateway != "off", "needs the gateway: leave out --llm-gateway=off")
COLLECTOR = Need(lambda s: s.otlp is not None or not s.has_runs, "needs a collector: add --otlp=URL")
NEEDS = (AGENT, ENGINE, COLLECTOR, SLURM, RAY, GPUS, CONTAINERS, APPTAINER, LLM_NETWORK, GATEWAY, TWINS)


@dataclass(frozen=True)
class Option:
    """An option: its name, its help and how it is parsed. ``parse`` raises ValueError."""

    name: str
    metavar: str
    help: str
    parse: Callable[[Any], Any]
    traits: Trait
    variable: str = ""
    """The environment variable that also sets it, if any."""
    needs: tuple[Need, ...] = ()

    @property
    def long_name(self) -> str:
        """A long form that cannot clash with other pytest plugins."""
        return f"--mlebench-{self.name.removeprefix('--')}"

    @property
    def dest(self) -> str:
        return self.long_name.removeprefix("--").replace("-", "_")

    @property
    def ini_key(self) -> str:
        return self.dest

    @property
    def for_argparse(self) -> dict[str, Any]:
        """Keyword arguments of ``add_argument``. They do not parse the string: ``read`` validates all sources alike."""
        settings = {"dest": self.dest, "help": self.help}
        if self.traits & FLAG:
            return settings | {"action": "store_true"}
        if self.traits & OPTIONAL:
            return settings | {"metavar": self.metavar, "nargs": "?", "const": "auto"}
        return settings | {"metavar": self.metavar, "action": "append" if self.traits & LIST else "store"}


NONE, FLAG, OPTIONAL, LIST = Trait(0), Trait.FLAG, Trait.OPTIONAL, Trait.LIST
PATH, INI, RESTORED, GRANTED = Trait.PATH, Trait.INI, Trait.RESTORED, Trait.GRANTED


def _option(
    name: str,
    metavar: str,
    help: str,
    parse: Callable[[Any], Any] = str,
    traits: Trait = INI | RESTORED,
    *,
    default: Any = None,
    variable: str = "",
    needs: tuple[Need, ...] = (),
) -> Any:
    """A field. By default, the option has an ini key and ``--resume`` restores it. A list defaults to empty."""
    option = Option(name, metavar, help, parse, traits, variable, needs)
    return field(default=() if traits & LIST else default, metadata={"option": option})


def _flag(name: str, help: str, traits: Trait = NONE, *, needs: tuple[Need, ...] = ()) -> Any:
    return _option(name, "", help, bool, traits | FLAG, default=False, needs=needs)


_of_runs = partial(_option, needs=(AGENT,))
_of_engines = partial(_option, needs=(AGENT, ENGINE))
_of_containers = partial(_option, needs=(CONTAINERS,))
_of_gateway = partial(_option, needs=(GATEWAY,))


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The user's settings. Paths are absolute, sizes in bytes, times in seconds; None means no limit, or not set."""

    agents: tuple[str, ...] = _option("--agent", "ID[/VARIANT]", "agent to run; repeatable", str, LIST)
    agents_dirs: tuple[Path, ...] = _option(
        "--agents-dir",
        "DIR",
        "folder of your own agents, in addition to the bundled ones; repeatable",
        parse.folder,
        LIST | PATH | INI | RESTORED,
    )
    competitions_dirs: tuple[Path, ...] = _option(
        "--competitions-dir",
        "DIR",
        "folder of your own competitions, in addition to the bundled ones; repeatable",
        parse.folder,
        LIST | PATH | INI | RESTORED,
    )
    split: str | None = _option(
        "--split",
        "NAME",
        "competitions to use: low (or lite), medium, high, all, core (version 2 only), dev, smoke, your own split, "
        "or a file with one id per line",
        traits=INI,
    )
    bench_version: str | None = _option(
        "--bench-version",
        "N",
        "version of the benchmark: 1 (MLE-bench as published, with its defects) or 2 (corrected); checks of graders "
        "cover both (default: 1)",
        parse.version,
    )
    seeds: int = _of_runs(
        "--seeds", "N", "runs of each agent on each competition (default: 1)", parse.positive_integer, INI, default=1
    )
    sandbox: str = _option(
        "--sandbox",
        "KIND",
        "where agents run: docker, podman, apptainer, local (no isolation), or auto: docker if it is available, else "
        "local for trusted agents (default: auto)",
        parse.sandbox,
        default="auto",
    )
    data: str = _option(
        "--data",
        "WHICH",
        "data that agents work on: real, or generated data that needs no download and is never ranked with real data: "
        "twin, twin:SEED or twin:SEED:SIZE; SIZE is small, medium or micro (default: real; for a twin: small, with a "
        "random seed for each run group)",
        parse.data,
        default="real",
    )
    twin_per_seed: bool = _flag(
        "--twin-per-seed",
        "generate a twin for each seed of a run, instead of one for all seeds",
        RESTORED,
        needs=(TWINS,),
    )
    data_dir: Path | None = _option(
        "--data-dir",
        "DIR",
        "folder of the competitions' data (default: $MLEBENCH_DATA_DIR, else mlebench in the user's cache folder)",
        parse.place,
        PATH | INI | RESTORED,
        variable="MLEBENCH_DATA_DIR",
    )
    data_source: str | None = _option(
        "--data-source",
        "URL",
        "fetch missing data from this URL, where `mlebench push` stored it: s3://, gs://, https:// or file:// "
        "(default: $MLEBENCH_DATA_SOURCE; without it, data is downloaded and prepared)",
        parse.data_source,
        variable="MLEBENCH_DATA_SOURCE",
    )
    prepare: str = _option(
        "--prepare",
        "WHEN",
        "what to do if data is missing: auto (download and prepare it) or never (skip the test) (default: auto)",
        parse.one_of("auto", "never"),
        INI,
        default="auto",
    )
    description: str | None = _option(
        "--description",
        "WHICH",
        "task description that agents read: bundled (ours), kaggle (the competition's own pages) or obfuscated (ours, "
        "with the competition's name hidden) (default: the prepared one, else bundled)",
        parse.one_of("bundled", "kaggle", "obfuscated"),
    )
    runs_dir: Path = _option(
        "--runs-dir",
        "DIR",
        "folder of run groups (default: reports, in pytest's root directory)",
        parse.place,
        PATH | INI,
        default=Path("reports"),
    )
    run_group: str | None = _of_runs(
        "--run-group",
        "NAME",
        "run group to create or complete: a name below --runs-dir, a folder, or last; finished runs are not rerun "
        "(default: date and time)",
        parse.group,
        traits=NONE,
    )
    resume: str | None = _option(
        "--resume",
        "GROUP",
        "resume a run group with its agents, competitions, seeds and limits: its folder, its name below --runs-dir, "
        "part of its name, or last",
        traits=NONE,
    )
    retry_failed: frozenset[str] = _of_runs(
        "--retry-failed",
        "OUTCOME,…",
        "rerun runs that ended with one of these outcomes, for example crashed,error; all: every failure",
        parse.failures,
        default=frozenset(),
        traits=NONE,
    )
    allow_changes: bool = _flag(
        "--allow-changes",
        "resume a run group even though agents, competitions or settings have changed",
        needs=(AGENT,),
    )
    time_limit: float = _option(
        "--time-limit",
        "TIME",
        "time limit of a run, for example 24h, 90m, 30s (default: 24h)",
        parse_duration,
        default=defaults.TIME_LIMIT,
    )
    until: str = _option(
        "--until",
        "WHEN",
        "when a run ends: done (the agent finishes) or limit (the agent's script asks it for a better result until "
        "time runs out) (default: done)",
        parse.one_of(*defaults.UNTIL),
        default="done",
    )
    cpus: float | None = _option(
        "--cpus", "N", "processors that a run may use (default: a fair share)", parse.positive_number
    )
    memory: int | None = _option(
        "--memory", "SIZE", "memory that a run may use, for example 64g, 512m (default: a fair share)", parse_size
    )
    disk: int | None = _option(
        "--disk",
        "SIZE",
        "disk space that a run may use, for example 100g (default: a fair share of what is free, in containers)",
        parse_size,
    )
    gpus: int = _option(
        "--gpus", "N", "whole GPUs, or MIG instances, for each run (default: 0)", parse.whole_gpus, default=0
    )
    gpu_ids: tuple[str, ...] = _option(
        "--gpu-ids",
        "ID,…",
        "use only these GPUs, by index or UUID, for example 0,1",
        parse.words,
        default=(),
        needs=(GPUS,),
    )
    network: str = _option(
        "--network",
        "POLICY",
        "network access of containers: none, llm (the agent's llm_hosts) or full (default: llm)",
        parse.one_of("llm", "none", "full"),
        default="llm",
    )
    build_network: str | None = _of_containers(
        "--build-network",
        "POLICY",
        "network access while building an agent's image: none, registries (of packages) or full (default: registries "
        "with --network=none, else full)",
        parse.one_of("none", "registries", "full"),
    )
    allow_secrets: tuple[str, ...] = _option(
        "--allow-secret",
        "NAME",
        "give agents that request it the real value of this environment variable; repeatable (default: agents get only "
        "gateway tokens)",
        parse.variable,
        LIST | INI | GRANTED,
    )
    allow_hosts: tuple[str, ...] = _option(
        "--allow-host",
        "HOST",
        "let agents reach this host, written as HOST, HOST:PORT or a URL; repeatable (default: only model providers, "
        "through the gateway)",
        parse.host,
        LIST | INI | GRANTED,
        needs=(CONTAINERS, LLM_NETWORK),
    )
    trust_agents: tuple[str, ...] = _option(
        "--trust-agent",
        "ID[/VARIANT]",
        "let this agent run without isolation, with your user's rights; repeatable (default: only bundled agents that "
        "request it)",
        parse.agent_id,
        LIST | INI | GRANTED,
    )
    runtime: str | None = _of_containers(
        "--runtime", "NAME", "container runtime, for example sysbox-runc, nvidia, runsc"
    )
    allow_unenforced_limits: bool = _flag(
        "--allow-unenforced-limits",
        "run agents even if Docker or Podman cannot enforce limits on memory, processors or processes (rootless "
        "installations)",
        INI | RESTORED,
        needs=(CONTAINERS,),
    )
    allow_privileged: bool = _flag(
        "--allow-privileged",
        "run agents whose definition requires a privileged container",
        GRANTED,
        needs=(CONTAINERS,),
    )
    base_image: str | None = _of_containers(
        "--base-image", "IMAGE", "base image of mlebench-env (default: debian:bookworm-slim)"
    )
    heavy: str | None = _of_containers(
        "--heavy",
        "VARIANT",
        "build mlebench-env with the common machine-learning packages, for cpu, cuda or auto (cuda if runs get GPUs, "
        "else cpu); without a VARIANT: auto",
        parse.heavy,
        OPTIONAL | INI | RESTORED,
    )
    sif: Path | None = _option(
        "--sif",
        "DIR",
        "folder of Apptainer images, shared by all nodes (default: .sif in the data folder)",
        parse.place,
        PATH | INI | RESTORED,
        needs=(APPTAINER,),
    )
    max_submission_size: int = _option(
        "--max-submission-size",
        "SIZE",
        "largest submission that is graded; a larger one is invalid (default: 1g)",
        parse_size,
        default=defaults.MAX_SUBMISSION_BYTES,
    )
    snapshots: str = _option(
        "--snapshots",
        "ON|OFF",
        "on: take snapshots of submissions while agents run and grade them after the run, for scores over time "
        "(default: on)",
        parse.one_of("on", "off"),
        default="on",
    )
    grading_memory: int = _option(
        "--grading-memory",
        "SIZE",
        "memory for grading a submission; a submission that needs more is invalid (default: 8g)",
        parse_size,
        default=defaults.GRADING_MEMORY,
    )
    grading_time: float = _option(
        "--grading-time",
        "TIME",
        "time for grading a submission; a submission that needs more is invalid (default: 10m)",
        parse_duration,
        default=defaults.GRADING_SECONDS,
    )
    llm_gateway: str = _option(
        "--llm-gateway",
        "ON|OFF",
        "on: agents reach language models through a gateway and get no keys; off: they get the keys that "
        "--allow-secret names, and nothing is recorded (default: on)",
        parse.one_of("on", "off"),
        default="on",
    )
    llm_providers: tuple[Path, ...] = _of_gateway(
        "--llm-providers",
        "FILE",
        "YAML file with additional providers of language models; repeatable",
        parse.file,
        LIST | PATH | INI | RESTORED,
    )
    llm_record: str = _of_gateway(
        "--llm-record",
        "WHAT",
        "what to record of each model call: bodies (everything), calls (tokens and cost) or off (default: bodies)",
        parse.one_of("bodies", "calls", "off"),
        default="bodies",
    )
    max_cost: float | None = _of_gateway(
        "--max-cost", "DOLLARS", "limit on a run's spending on models", parse.positive_number
    )
    max_tokens: int | None = _of_gateway(
        "--max-tokens", "N", "limit on a run's tokens, input and output together", parse.positive_integer
    )
    max_calls: int | None = _of_gateway("--max-calls", "N", "limit on a run's model calls", parse.positive_integer)
    max_total_cost: float | None = _of_gateway(
        "--max-total-cost", "DOLLARS", "limit on the whole run group's spending on models", parse.positive_number
    )
    models: tuple[str, ...] = _of_gateway(
        "--models",
        "GLOB",
        "only these models may be called, for example gpt-4o* or anthropic/*; repeatable (default: all)",
        str,
        LIST | INI | RESTORED,
    )
    prices: tuple[Path, ...] = _of_gateway(
        "--prices",
        "FILE",
        "YAML file with model prices that override the built-in prices; repeatable",
        parse.file,
        LIST | PATH | INI | RESTORED,
    )
    llm_replay: str | None = _of_gateway(
        "--llm-replay",
        "GROUP",
        "answer model calls from the recording of this run group, without keys, network or cost",
        traits=RESTORED,
    )
    llm_retries: int = _of_gateway(
        "--llm-retries",
        "N",
        "how often the gateway retries a call if the provider is overloaded (default: 0)",
        parse.natural_number,
        default=0,
    )
    llm_rpm: float | None = _of_gateway(
        "--llm-rpm", "N", "limit on calls to each provider per minute, over all workers", parse.positive_number
    )
    allow_provider_tools: bool = _flag(
        "--allow-provider-tools",
        "let agents use tools that providers run, such as web search; the results are not comparable with other runs",
        RESTORED,
        needs=(GATEWAY,),
    )
    cluster: str | None = _of_runs(
        "--cluster",
        "ENGINE",
        "engine that runs are submitted to, so that they outlive the session: local (processes on this machine), "
        "slurm, ray, or none",
        parse.cluster,
    )
    cluster_address: str | None = _option(
        "--cluster-address",
        "ADDRESS",
        "address of the Ray cluster, as HOST:PORT (default: $RAY_ADDRESS, or the cluster that this machine belongs to)",
        needs=(AGENT, ENGINE, RAY),
    )
    cluster_options: str | None = _option(
        "--cluster-options",
        "OPTIONS",
        "options passed to sbatch for each job, for example '--partition=gpu --account=lab'",
        needs=(AGENT, ENGINE, SLURM),
    )
    cluster_setup: Path | None = _option(
        "--cluster-setup",
        "FILE",
        "file of shell commands that each job runs first, for example `module load cuda`",
        parse.file,
        PATH | INI | RESTORED,
        needs=(AGENT, ENGINE, SLURM),
    )
    cluster_keys: Path | None = _of_engines(
        "--cluster-keys",
        "FILE",
        "file of NAME=value lines with keys of language models, readable only by you, on storage that all nodes share "
        "(default: the nodes' environment)",
        parse.file,
        PATH | INI | RESTORED,
    )
    node_scratch: Path | None = _of_engines(
        "--node-scratch",
        "DIR",
        "folder on each node's local disk; the data of runs is copied there and removed after the node's last run "
        "(default: runs use --data-dir)",
        parse.place,
        PATH | INI | RESTORED,
    )
    max_parallel: int | None = _of_engines(
        "--max-parallel",
        "N",
        "limit on runs submitted to the engine at once (default: 1 with --cluster=local, else all)",
        parse.positive_integer,
    )
    max_requeues: int = _of_engines(
        "--max-requeues",
        "N",
        "how often a run is resubmitted if its job is lost to a node failure or preemption (default: 2)",
        parse.natural_number,
        default=2,
    )
    detach: bool = _flag(
        "--detach", "let jobs continue when you press Ctrl-C; --resume picks them up", needs=(AGENT, ENGINE)
    )
    min_medal: str | None = _of_runs(
        "--min-medal",
        "MEDAL",
        "fail runs that earn less than this: gold, silver, bronze or median",
        parse.one_of("gold", "silver", "bronze", "median"),
        INI,
    )
    heartbeat: float = _of_runs(
        "--heartbeat",
        "TIME",
        "how often a session reports progress, for example 5m; 0: never (default: 10m)",
        parse.interval,
        INI,
        default=600.0,
    )
    title: str | None = _of_runs(
        "--title", "TEXT", "title of the run group's reports (default: agents, split and date)"
    )
    note: str | None = _of_runs("--note", "TEXT", "note to readers of the run group's reports")
    otlp: str | None = _of_runs(
        "--otlp",
        "URL",
        "send each run as a trace to this OpenTelemetry collector when it ends, for example http://localhost:4318",
        traits=INI,
    )
    otlp_headers: Path | None = _option(
        "--otlp-headers",
        "FILE",
        "file of `Name: value` lines, readable only by you, that are sent with each request to the collector",
        parse.file,
        PATH | INI,
        needs=(AGENT, COLLECTOR),
    )
    otlp_content: bool = _flag(
        "--otlp-content", "also send messages, and the arguments and results of tools", needs=(AGENT, COLLECTOR)
    )
    keep_sandbox: bool = _flag("--keep-sandbox", "keep the container or folder of each run, for inspection")
    real_data: bool = _flag("--real-data", "check graders with the prepared real data instead of synthetic data")

    @property
    def has_runs(self) -> bool:
        """Whether the session runs agents; otherwise it checks competitions."""
        return bool(self.agents or self.resume)

    @property
    def version(self) -> str:
        """The version of the benchmark in the form that ``Competition`` uses, for example ``v1``."""
        return f"v{self.bench_version or 1}"

    @property
    def nodes_pull(self) -> bool:
        """Whether runs execute on other machines, which fetch their data from ``--data-source``."""
        return self.data_source is not None and self.cluster not in (None, "local") and not self.has_twins

    @property
    def has_twins(self) -> bool:
        """Whether data is generated."""
        return self.data != "real"

    def restored_options(self) -> dict[str, Any]:
        """The values that ``--resume`` or jobs of an engine restore, as JSON by option name."""
        return {
            option.name: _to_json(option, getattr(self, name))
            for name, option in _OPTIONS.items()
            if option.traits & (RESTORED | GRANTED)
        }


_OPTIONS: Mapping[str, Option] = {f.name: f.metadata["option"] for f in fields(Settings)}
"""Options by field name."""
OPTIONS: Mapping[str, Option] = {option.name: option for option in _OPTIONS.values()}
"""Options by name."""
TOPICS: Mapping[str, tuple[str, str]] = {
    "Run agents": (
        "--agent --split --bench-version --seeds --run-group --runs-dir --resume --retry-failed --allow-changes "
        "--time-limit --until --cpus --memory --disk --snapshots --max-submission-size --grading-memory --grading-time "
        "--min-medal --heartbeat",
        "agents doctor watch completion",
    ),
    "Write an agent": ("--agents-dir --keep-sandbox", "new-agent"),
    "Add a competition": ("--competitions-dir --real-data", "new-competition golden"),
    "Data": (
        "--data --twin-per-seed --data-dir --data-source --prepare --description",
        "prepare push list verify remove leaderboard",
    ),
    "Long runs": (
        "--cluster --cluster-address --cluster-options --cluster-setup --cluster-keys --node-scratch --max-parallel "
        "--max-requeues --detach",
        "stop run-one",
    ),
    "Run on a cloud with Harbor": ("", "import"),
    "Sandboxes": (
        "--sandbox --network --build-network --allow-secret --allow-host --trust-agent --gpus --gpu-ids --heavy "
        "--base-image --sif --runtime --allow-unenforced-limits --allow-privileged",
        "build clean",
    ),
    "What a run costs": (
        "--max-cost --max-tokens --max-calls --max-total-cost --models --prices --llm-gateway --llm-providers "
        "--llm-record --llm-replay --llm-retries --llm-rpm --allow-provider-tools",
        "",
    ),
    "Train agents": ("", "serve-episodes"),
    "Read results": ("--title --note", "report groups trajectory files unpack grade grade-sample"),
    "Browse runs": ("", "view"),
    "Results to trust": ("", "audit kernels bundle unbundle board regrade reproduce familiarity"),
    "Experiment trackers": ("--otlp --otlp-headers --otlp-content", "export"),
}
"""Options and commands by documentation page, for `--help`."""


@dataclass(frozen=True, kw_only=True)
class OptionSource:
    """A source of values by option name. None selects the default, and later sources are ignored.

    ``base`` is the folder for relative paths; ``origin`` describes in errors where an option's value comes from.
    """

    values: Mapping[str, Any]
    origin: Callable[[Option], str]
    base: Path


def from_command_line(arguments: object, folder: Path) -> OptionSource:
    """The values that argparse parsed."""
    given = {option.name: getattr(arguments, option.dest, None) for option in OPTIONS.values()}
    values = {name: value for name, value in given.items() if value not in (None, False, [])}
    return OptionSource(values=values, origin=lambda option: option.name, base=folder)


_BOOLEANS = dict.fromkeys(("y", "yes", "t", "true", "on", "1"), True) | dict.fromkeys(
    ("n", "no", "f", "false", "off", "0"), False
)
"""How pytest reads a boolean in an ini file."""


def from_ini(values: Mapping[str, Any], file: Path | None, folder: Path) -> OptionSource:
    """The values of an ini file as it has them, given by ini key. Raises UsageError."""
    where = f" in {file}" if file else ""
    known = {}
    for option in OPTIONS.values():
        value = values.get(option.ini_key) if option.traits & INI else None
        if isinstance(value, str) and option.traits & LIST:
            try:
                value = shlex.split(value)
            except ValueError as error:
                raise UsageError(f"{option.ini_key}{where}: {error}") from error
        elif isinstance(value, str) and option.traits & FLAG:
            value = _BOOLEANS.get(value.strip().lower(), value)
        known[option.name] = value
    return OptionSource(
        values={name: value for name, value in known.items() if value not in (None, "", [])},
        origin=lambda option: f"{option.ini_key}{where}",
        base=file.parent if file else folder,
    )


def from_python(options: Mapping[str, Any]) -> Settings:
    """The settings of a call from Python, by option name with underscores; omitted ones come from the environment.

    Raises UsageError for an unknown name, with close matches, and for an invalid value.
    """
    values: dict[str, Any] = {}
    for name, value in options.items():
        option = OPTIONS.get("--" + name.replace("_", "-"))
        if option is None:
            close = get_close_matches(name, [known.name[2:].replace("-", "_") for known in OPTIONS.values()], n=3)
            hint = f"; did you mean {listed(close, 'or')}?" if close else ""
            raise UsageError(f"{name} is not an option of Bench{hint}")
        if value is not None and not (option.traits & FLAG and value is False):
            values[option.name] = list(value) if isinstance(value, tuple | set | frozenset) else value
    here = Path.cwd()
    given = OptionSource(values=values, origin=lambda option: option.name[2:].replace("-", "_"), base=here)
    return read([given, from_environment(here)], runs_dir=here / "reports")


def from_environment(folder: Path, variables: Mapping[str, str] = os.environ) -> OptionSource:
    """The values of environment variables."""
    return OptionSource(
        values={
            option.name: variables[option.variable]
            for option in OPTIONS.values()
            if option.variable and variables.get(option.variable)
        },
        origin=lambda option: f"${option.variable}",
        base=folder,
    )


def from_manifest(manifest: Manifest, file: Path) -> OptionSource:
    """The options of a resumed run group, with the agents and seeds of all its sessions."""
    if not manifest.runs:
        raise UsageError(
            f"run group {file.parent.name} was stopped before its runs were planned; start it again with "
            f"--run-group={file.parent.name} and its original options"
        )
    values = {
        **_restored(manifest.options, RESTORED),
        "--agent": [run.agent for run in manifest.runs],
        "--seeds": 1 + max(run.seed for run in manifest.runs),
        "--split": None,
    }
    return OptionSource(values=values, origin=lambda option: f"{option.name} in {file}", base=file.parent)


def from_plan(agent: str, options: Mapping[str, Any], file: Path) -> OptionSource:
    """The options that a session passed to an engine's job."""
    values = {
        **_restored(options, RESTORED | GRANTED),
        "--agent": [agent],
        "--keep-sandbox": options.get("--keep-sandbox") is True,
    }
    return OptionSource(values=values, origin=lambda option: f"{option.name} in {file}", base=file.parent)


def _restored(options: Mapping[str, Any], traits: Trait) -> dict[str, Any]:
    restored = [option.name for option in OPTIONS.values() if option.traits & traits]
    return {name: options[name] for name in restored if options.get(name, "") != ""}


def read(sources: Sequence[OptionSource], *, runs_dir: Path) -> Settings:
    """The settings, each from the first source that has it; raises UsageError with the source and the problem.

    ``runs_dir`` is the default of ``--runs-dir``.
    """
    values: dict[str, Any] = {"runs_dir": runs_dir}
    for name, option in _OPTIONS.items():
        source = next((source for source in sources if option.name in source.values), None)
        if source is not None and (value := source.values[option.name]) is not None:
            values[name] = _parsed(option, value, source)
    return Settings(**values)


def read_call(
    arguments: object, *resumed: OptionSource, ini: Mapping[str, Any], file: Path | None, here: Path, root: Path
) -> Settings:
    """The settings of a command line, the ``resumed`` sources, the ini file and the environment.

    ``root`` is pytest's root directory. Raises UsageError.
    """
    sources = [from_command_line(arguments, here), *resumed, from_ini(ini, file, here), from_environment(here)]
    return read(sources, runs_dir=root / "reports")


def _parsed(option: Option, value: Any, source: OptionSource) -> Any:
    try:
        if option.traits & FLAG:
            if not isinstance(value, bool):
                raise ValueError(f"{quoted(value)} is neither true nor false")
            return value
        if option.traits & OPTIONAL and isinstance(value, bool):  # a flag in groups of earlier versions
            return option.parse("auto") if value else None
        if option.traits & LIST and isinstance(value, list | tuple):
            return tuple(dict.fromkeys(_parsed_text(option, item, source) for item in value))
        if option.parse is parse.words and isinstance(value, list | tuple):  # a list from Python, "a,b" elsewhere
            value = ",".join(map(str, value))
        parsed = _parsed_text(option, value, source)
        return (parsed,) if option.traits & LIST else parsed
    except OSError as error:
        raise UsageError(f"{source.origin(option)}: {unusable(error)}") from error
    except ValueError as error:
        raise UsageError(f"{source.origin(option)}: {error}") from error


def _parsed_text(option: Option, value: Any, source: OptionSource) -> Any:
    if isinstance(value, bool) or not isinstance(value, str | int | float | Path):
        raise ValueError(f"{quoted(value)} is not a single value")
    text = quoted(value) if isinstance(value, int) else str(value).strip()
    if not text:
        raise ValueError("the value is empty")
    if "\0" in text:
        raise ValueError("the value contains a NUL character")
    if option.traits & PATH:
        return option.parse(_absolute(text, source.base))
    if option.name == "--run-group" and os.sep in text:
        return str(_absolute(text, source.base))
    if option.name == "--split" and (file := _absolute(text, source.base)).is_file():
        return str(file)
    return option.parse(text)


def _absolute(text: str, base: Path) -> Path:
    return Path(os.path.normpath(base / expanded(text)))


def _to_json(option: Option, value: Any) -> Any:
    if isinstance(value, tuple):
        return list(map(str, value)) if option.traits & LIST else ",".join(value)
    if option.name == "--data-source" and value is not None:
        from pytest_mlebench.data.preparing import redacted

        return redacted(value)
    return str(value) if isinstance(value, Path) else value


_DATA_OPTIONS = frozenset(
    {"--agents-dir", "--competitions-dir", "--data", "--data-dir", "--data-source", "--description", "--twin-per-seed"}
)
_RUN_OPTIONS = (
    *(
        option.name
        for option in OPTIONS.values()
        if option.traits & (RESTORED | GRANTED) and AGENT not in option.needs and option.name not in _DATA_OPTIONS
    ),
    "--keep-sandbox",
)
"""Options for runs, and for tests with the fixtures ``run_agent`` and ``sandbox``."""
_SESSION_OPTIONS = (
    *("--resume", "--cluster", "--min-medal", "--heartbeat", "--otlp"),
    *(option.name for option in OPTIONS.values() if not {ENGINE, COLLECTOR}.isdisjoint(option.needs)),
)
"""Options that ``Bench.run`` does not support."""


def check_effects(settings: Settings, given: AbstractSet[str], *, in_session: bool = True) -> None:
    """Check that each of the ``given`` options has an effect, in a pytest session or else in ``Bench.run``.

    Raises UsageError.
    """
    if not in_session and (ignored := _given(_SESSION_OPTIONS, given)):
        raise UsageError(_problem(ignored, "needs a pytest session, which Bench.run does not start"))
    if problem := next(_problems(settings, given), None):
        raise UsageError(problem)


def without_effect(settings: Settings, given: AbstractSet[str]) -> list[str]:
    """Return options that only have an effect if the user's tests run agents, which is not known yet."""
    return [] if settings.has_runs else [name for name in _RUN_OPTIONS if name in given]


def _problems(settings: Settings, given: AbstractSet[str]) -> Iterator[str]:
    if settings.has_runs:
        if "--real-data" in given:
            yield "--real-data checks graders, which --agent does not: leave one of them out"
        if "--retry-failed" in given and not (settings.resume or settings.run_group):
            yield "--retry-failed needs the run group to retry: add --resume=GROUP or --run-group=NAME"
        if settings.seeds > defaults.MAX_SEEDS and ("--seeds" in given or not settings.resume):
            yield f"--seeds={settings.seeds} is too large; a session has at most {defaults.MAX_SEEDS:,} seeds"
    elif "--split" in given:  # the session runs the competitions' checks
        if ignored := _given(_RUN_OPTIONS, given):
            yield _problem(ignored, AGENT.problem)
        of_data = ("--prepare", "--data", "--data-source", "--description")
        if (ignored := _given(of_data, given)) and not settings.real_data:
            yield _problem(ignored, "needs --agent=ID or --real-data: without them, checks use synthetic data")
    if "--data-source" in given and settings.has_twins:
        yield "--data-source provides real data, and --data=twin requests generated data: leave one of them out"
    if "--data-source" in given and settings.prepare == "never":
        yield "--data-source fetches missing data, which --prepare=never forbids: leave one of them out"
    for need in NEEDS:
        names = [option.name for option in OPTIONS.values() if need in option.needs]
        if (ignored := _given(names, given)) and not need.is_met(settings):
            yield _problem(ignored, need.problem.format(cluster=settings.cluster, network=settings.network))


def _given(names: Sequence[str], given: AbstractSet[str]) -> list[str]:
    return [name for name in names if name in given]


_PLURALS = {"needs": "need", "is": "are", "chooses": "choose", "adds": "add"}


def _problem(names: Sequence[str], problem: str) -> str:
    """Return an error message about these options; ``problem`` is in the singular.

    >>> _problem(["--seeds", "--min-medal"], "needs an agent")
    '--seeds and --min-medal need an agent'
    """
    *others, last = names
    if others:
        verb, _, rest = problem.partition(" ")
        problem = f"{_PLURALS.get(verb, verb)} {rest}".replace(" it has ", " they have ")
        last = f"{', '.join(others)} and {last}"
    return f"{last} {problem}"
