"""Options that would have no effect together: a mistake of the user, which is said instead of ignored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet

from pytest_mlebench.errors import UsageError
from pytest_mlebench.options import GRANTED, OPTIONS, RESTORED, Settings

_OF_RUNS = (
    *("--seeds", "--min-medal", "--run-group", "--retry-failed", "--allow-changes", "--heartbeat"),
    *("--title", "--note", "--cluster", "--cluster-address", "--cluster-options", "--cluster-setup"),
    *("--cluster-keys", "--node-scratch", "--max-parallel", "--max-requeues", "--detach"),
    *("--otlp", "--otlp-headers", "--otlp-content"),
)
"""What only runs of ``--agent`` and ``--resume`` use."""
_OF_DATA = frozenset({"--agents-dir", "--competitions-dir", "--data-dir", "--data-source", "--description"})
_TRAITS = RESTORED | GRANTED
_OF_SANDBOXES = (
    *(
        own.name
        for own in OPTIONS.values()
        if own.traits & (RESTORED | GRANTED) and own.name not in (*_OF_DATA, *_OF_RUNS)
    ),
    "--keep-sandbox",
)
"""What runs use, and tests of one's own with the fixtures ``run_agent`` and ``sandbox``."""
_OF_IMAGES = (
    *("--heavy", "--base-image", "--build-network", "--runtime", "--allow-privileged", "--allow-host"),
    "--allow-unenforced-limits",
)
_OF_GATEWAY = (
    *("--max-cost", "--max-tokens", "--max-calls", "--max-total-cost", "--models", "--prices", "--llm-providers"),
    *("--llm-record", "--llm-replay", "--llm-retries", "--llm-rpm", "--allow-provider-tools"),
)

_OF_SLURM = ("--cluster-options", "--cluster-setup")
_OF_ENGINES = (
    "--cluster-address",
    *_OF_SLURM,
    "--cluster-keys",
    "--node-scratch",
    "--max-parallel",
    "--max-requeues",
    "--detach",
)


def check(settings: Settings, given: AbstractSet[str]) -> None:
    """See that each option on the command line, of which these are ``given``, has an effect; raises UsageError."""
    if problem := next(_problems(settings, given), None):
        raise UsageError(problem)


def without_effect(settings: Settings, given: AbstractSet[str]) -> list[str]:
    """Options that have an effect only where the session's own tests run agents, which is not known yet."""
    return [] if settings.has_runs else [name for name in _OF_SANDBOXES if name in given]


def _problems(settings: Settings, given: AbstractSet[str]) -> Iterator[str]:
    if settings.has_runs:
        if "--real-data" in given:
            yield "--real-data checks graders, which --agent does not: leave one of them out"
        if "--retry-failed" in given and not (settings.resume or settings.run_group):
            yield "--retry-failed needs the run group whose failures to run again: add --resume=GROUP"
    else:
        if ignored := _given(_OF_RUNS, given):
            yield f"{ignored} needs an agent: add --agent=ID"
        if settings.split is not None:  # the competitions check themselves
            if ignored := _given(_OF_SANDBOXES, given):
                yield f"{ignored} needs an agent: add --agent=ID"
            if (ignored := _given(("--prepare", "--data-source", "--description"), given)) and not settings.real_data:
                yield f"{ignored} needs --agent=ID or --real-data: without them, checks use synthetic data"
    if "--data-source" in given and settings.prepare == "never":
        yield "--data-source is where missing data is taken from, which --prepare=never forbids: leave one of them out"
    if (ignored := _given(_OF_ENGINES, given)) and settings.cluster is None:
        yield f"{ignored} needs an engine that runs are handed to: add --cluster=local, slurm or ray"
    if (ignored := _given(_OF_SLURM, given)) and settings.cluster == "local":
        yield f"{ignored} has no effect with --cluster=local, whose jobs have this session's environment"
    if (ignored := _given(_OF_SLURM, given)) and settings.cluster == "ray":
        yield f"{ignored} has no effect with --cluster=ray, whose jobs have the environment of the cluster's nodes"
    if "--cluster-address" in given and settings.cluster in ("local", "slurm"):
        yield f"--cluster-address says where a Ray cluster is; with --cluster={settings.cluster} it has no effect"
    if (ignored := _given(("--otlp-headers", "--otlp-content"), given)) and settings.otlp is None:
        yield f"{ignored} needs a collector that traces are sent to: add --otlp=URL"
    if "--gpu-ids" in given and not settings.gpus:
        yield "--gpu-ids chooses among GPUs, and a run gets none: add --gpus=N"
    if (ignored := _given(_OF_IMAGES, given)) and settings.sandbox == "local":
        yield f"{ignored} is for containers: leave out --sandbox=local"
    if "--allow-host" in given and settings.network != "llm":
        yield f"--allow-host adds to --network=llm; with --network={settings.network} it has no effect"
    if (ignored := _given(_OF_GATEWAY, given)) and settings.llm_gateway == "off":
        yield f"{ignored} needs the gateway: leave out --llm-gateway=off"


def _given(names: Sequence[str], given: AbstractSet[str]) -> str:
    return ", ".join(name for name in names if name in given)
