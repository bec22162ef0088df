"""``mlebench agents``, ``build``, ``clean`` and ``doctor``: agents, their images, and checks of this machine."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_mlebench import defaults
from pytest_mlebench.agents import Agent
from pytest_mlebench.bench import Bench
from pytest_mlebench.cli.common import add_options, print_json, read_bench
from pytest_mlebench.data.download.client import find_credentials
from pytest_mlebench.data.download.transfers import RetryPolicy
from pytest_mlebench.errors import MLEBenchError, SandboxError, UsageError
from pytest_mlebench.io import files
from pytest_mlebench.io.extensions import extensions, not_installed
from pytest_mlebench.io.progress import Event, Note, WarningNote
from pytest_mlebench.io.units import format_size, listed, pluralize
from pytest_mlebench.llm.providers import load_providers
from pytest_mlebench.options import Settings
from pytest_mlebench.reports.progress import Lines
from pytest_mlebench.reports.tables import Table, terminal_width
from pytest_mlebench.sandbox.contract import AddedSandbox
from pytest_mlebench.sandbox.docker.cleanup import clean_all
from pytest_mlebench.sandbox.docker.client import DOCKER, PODMAN
from pytest_mlebench.sandbox.docker.podman import open_client
from pytest_mlebench.sandbox.dockerfile import BASE_IMAGE, ENVIRONMENT
from pytest_mlebench.sandbox.gpus import GpuPool
from pytest_mlebench.sandbox.limits import Machine

Line = tuple[str, str, str]
"""State (``ok``, ``note`` or ``problem``); what was checked; the result, and what to do."""
MIN_DISK, MIN_MEMORY = 20 * 10**9, 4 * 10**9
"""Bytes of free disk space and of total memory below which runs are likely to fail."""
SECONDS = 5.0


def add(commands: Any) -> None:
    agents = commands.add_parser("agents", help="list agents: variants, versions, what they need, their images")
    add_options(agents, "--sandbox", "--sif", "--agents-dir", "--base-image", "--heavy", "--gpus", "--build-network")
    agents.add_argument("--json", action="store_true", help="print as JSON")
    agents.set_defaults(command=_agents)

    doctor = commands.add_parser("doctor", help="check whether this machine is ready for runs")
    add_options(doctor, "--agents-dir", "--data-dir", "--sif", "--gpu-ids", "--base-image", "--runtime")
    doctor.set_defaults(command=_doctor)

    build = commands.add_parser("build", help="build agents' images ahead of time")
    build.add_argument("agents", nargs="*", metavar="AGENT",
        help="agent ids, or mlebench-env for their base image (default: all bundled agents)")  # fmt: skip
    build.add_argument("--check", action="store_true",
        help="then train a small model with each library, without a network; with --gpus on GPUs too")  # fmt: skip
    add_options(build, "--sandbox", "--sif", "--agents-dir", "--base-image", "--heavy", "--gpus", "--gpu-ids",
        "--build-network")  # fmt: skip
    build.set_defaults(command=_build)

    clean = commands.add_parser("clean", help="remove containers that killed sessions left behind")
    clean.add_argument("--kept", action="store_true", help="also remove what --keep-sandbox kept")
    clean.add_argument("--dry-run", action="store_true", help="only list what would be removed")
    clean.set_defaults(command=_clean)


def _read_bench(options: argparse.Namespace) -> Bench:
    """Return the bench for a read-only command. Raises UsageError if the folder of ``--sif`` does not exist."""
    bench = read_bench(options)
    if options.mlebench_sif is not None and bench.settings.sif is not None and not bench.settings.sif.is_dir():
        raise UsageError(f"--sif: {bench.settings.sif} is not a folder; `mlebench build --sif=DIR` creates one")
    return bench


def _for_sif(bench: Bench) -> Bench:
    """Return the bench with the sandbox that uses ``--sif``, if the user gave only that. Raises UsageError."""
    if bench.settings.sif is None or bench.settings.sandbox != "auto":
        return bench
    if "apptainer" not in extensions("mlebench.sandboxes"):
        raise UsageError(not_installed("--sif"))
    return bench.with_settings(sandbox="apptainer")


def _agents(options: argparse.Namespace) -> int:
    bench = _read_bench(options)
    if options.mlebench_sif is not None:  # in an ini file, it may be for a cluster
        bench = _for_sif(bench)
    settings, images, notes = bench.settings, None, list[str]()
    try:
        images = bench.building_sandbox().images
    except SandboxError as error:
        notes.append(f"images are unknown: {error}")
    missing = "?" if images is None else "not built"
    values: list[dict[str, Any]] = []
    rows: list[tuple[str, ...]] = []
    for agent in bench.agents():
        size = None
        try:
            size = images.built(agent) if images is not None else None
        except SandboxError as error:
            notes.append(str(error))
        base = agent.base_image or settings.base_image or BASE_IMAGE
        facts = {"version": agent.version, "models": list(agent.models), "keys": list(agent.secret_names)}
        values.append({"agent": agent.id, **facts, "base_image": base, "image_bytes": size})
        image = missing if size is None else format_size(size)
        version = agent.version[:12] if re.fullmatch("[0-9a-f]{40}", agent.version) else agent.version
        rows.append((agent.id, version, ", ".join(agent.models), _key_names(agent), base, image))
    if options.json:
        print_json(values)
        return 0
    heads = ("agent", "version", "models", "keys", "base image", "image")
    print(Table(heads, rows, spare=("base image", "version", "image")).text(terminal_width()))
    for note in dict.fromkeys(notes):
        print(note)
    return 0


def _key_names(agent: Agent) -> str:
    unset = [name for name in agent.secret_names if not os.environ.get(name)]
    present = [name for name in agent.secret_names if name not in unset]
    return ", ".join([*present, *(f"no {name}" for name in unset)])


def _doctor(options: argparse.Namespace) -> int:
    bench = _read_bench(options)
    checks: tuple[Callable[[Bench], Iterator[Line]], ...]
    checks = (_engine, _sandboxes, _gpus, _disk, _memory, _keys, _data, _network)
    problems = 0
    for check in checks:
        try:
            lines = list(check(bench))
        except MLEBenchError as error:
            lines = [("problem", check.__name__.strip("_"), str(error))]
        for state, what, text in lines:
            print(f"{state:8}{what:9}{text}", flush=True)
            problems += state == "problem"
    return 1 if problems else 0


def _engine(_: Bench) -> Iterator[Line]:
    if shutil.which("podman"):
        yield from _podman()
    try:
        info = open_client(DOCKER).info
    except SandboxError as error:
        yield "note", "Docker", str(error)
        return
    images = pluralize(int(info.get("Images") or 0), "image")
    yield "ok", "Docker", f"{info.get('ServerVersion')}, {info.get('Driver')}, {images}"
    if (free := files.free_bytes(Path(str(info.get("DockerRootDir"))))) is not None:
        prune = "docker image prune --all --filter label=mlebench.image"
        yield _space("images", free, f"`mlebench clean` frees some, and so does `{prune}`")


def _sandboxes(bench: Bench) -> Iterator[Line]:
    for sandbox in _added_sandboxes(bench):
        yield from ((state, "sandbox", text) for state, text in sandbox.describe())


def _added_sandboxes(bench: Bench) -> Iterator[AddedSandbox]:
    yield from filter(None, map(bench.added_sandbox, sorted(extensions("mlebench.sandboxes"))))


def _podman() -> Iterator[Line]:
    try:
        engine = open_client(PODMAN)
    except SandboxError as error:
        yield "note", "Podman", str(error)
        return
    text = f"{engine.info.get('ServerVersion')}, {engine.default_runtime}: --sandbox=podman"
    if engine.unenforced:
        text += f"; no limit on {listed(engine.unenforced)}, because {engine.why_unenforced}"
    yield ("note" if engine.unenforced else "ok"), "Podman", text
    engine.close()


def _gpus(bench: Bench) -> Iterator[Line]:
    if shutil.which("nvidia-smi") is None:
        yield "note", "GPUs", "none: nvidia-smi (NVIDIA's driver) is not installed; MLE-bench gives each run a GPU"
        return
    gpus = GpuPool(bench.settings.gpu_ids).available()
    if not gpus:
        yield "problem", "GPUs", "nvidia-smi shows none: check its output, and whether the driver is loaded"
        return
    yield "ok", "GPUs", f"{', '.join(gpu.name for gpu in gpus)}: --gpus=1 gives each run one"
    yield from _gpus_in_containers(bench.settings)


def _gpus_in_containers(settings: Settings) -> Iterator[Line]:
    """Test the GPUs in the image that runs with GPUs use, if it has been built."""
    lines: list[str] = []

    def collect(event: Event) -> None:
        if isinstance(event, Note):
            lines.append(" ".join(event.text.split()))

    try:
        sandbox = Bench(settings=replace(settings, heavy="cuda", gpus=0), reporter=collect).container_sandbox("docker")
    except SandboxError:
        return  # _engine reports it
    image = sandbox.images.built_environment()
    if image is None:
        build = "mlebench build mlebench-env --gpus=1 --heavy --check"
        yield "note", "GPUs", f"not tested in a container, since the image is not built: {build}"
        return
    try:
        tested = sandbox.test_gpus(image)
    except SandboxError as error:
        yield from (("ok" if line.startswith("ok") else "problem", "GPUs", line) for line in lines)
        yield "problem", "GPUs", str(error)
        return
    yield from (("ok", "GPUs", line.removeprefix("ok ")) for line in lines)
    if not tested:
        yield "note", "GPUs", "not tested in a container, since runs use all of them"


def _disk(bench: Bench) -> Iterator[Line]:
    for what, folder in (("data", bench.data_dir), ("runs", bench.settings.runs_dir)):
        if (free := files.free_bytes(folder)) is not None:
            yield _space(what, free, f"free some, or choose another folder with --{what}-dir")


def _memory(_: Bench) -> Iterator[Line]:
    machine = Machine.here()
    text = f"{format_size(machine.memory)}, {pluralize(machine.cpus, 'processor')}; runs share them (-n)"
    yield ("ok" if machine.memory >= MIN_MEMORY else "problem"), "memory", text
    if machine.memory < defaults.GRADING_MEMORY:
        yield "note", "memory", f"grading may use {format_size(defaults.GRADING_MEMORY)}: lower --grading-memory"


def _keys(bench: Bench) -> Iterator[Line]:
    names = sorted({name for agent in bench.agents() for name in agent.secret_names if name.endswith("_KEY")})
    present = [name for name in names if os.environ.get(name)]
    yield ("ok" if present else "note"), "keys", f"set: {', '.join(present) or 'none'}"
    if missing := sorted(set(names) - set(present)):
        yield "note", "keys", f"not set: {', '.join(missing)}; `mlebench agents` shows which agents need them"


def _data(bench: Bench) -> Iterator[Line]:
    store, catalogue = bench.store, list(bench.catalogue)
    prepared = sum(store.dataset(competition).is_prepared for competition in catalogue)
    all_of_them = pluralize(len(catalogue), "competition")
    yield "ok", "data", f"{prepared} of {all_of_them} prepared in {store.root} (`mlebench list`)"
    try:
        find_credentials(RetryPolicy())
    except MLEBenchError as error:
        yield "note", "Kaggle", str(error)
    else:
        yield "ok", "Kaggle", "credentials found"


def _network(bench: Bench) -> Iterator[Line]:
    hosts = [provider.host for provider in load_providers(*bench.settings.llm_providers).values()]
    names = list(dict.fromkeys([*hosts, "www.kaggle.com", "pypi.org", "registry.npmjs.org", "deb.debian.org"]))
    if proxy := os.environ.get("HTTPS_PROXY") or os.environ.get("https_proxy"):
        yield "note", "network", f"not tested: this machine uses a proxy ({proxy.rpartition('@')[2]})"
        return
    with ThreadPoolExecutor(len(names)) as pool:
        reached = dict(zip(names, pool.map(_reaches, names), strict=True))
    if found := [name for name in names if reached[name]]:
        yield "ok", "network", f"reached: {', '.join(found)}"
    if missed := [name for name in names if not reached[name]]:
        yield "note", "network", f"not reached: {', '.join(missed)}; if this machine needs a proxy, set $HTTPS_PROXY"


def _reaches(host: str) -> bool:
    try:
        socket.create_connection((host, 443), timeout=SECONDS).close()
    except OSError:
        return False
    return True


def _space(what: str, free: int, advice: str) -> Line:
    state = "ok" if free >= MIN_DISK else "problem"
    return state, what, f"{format_size(free)} of free disk space" + ("" if state == "ok" else f"; {advice}")


def _build(options: argparse.Namespace) -> int:
    reporter = Lines()
    bench = _for_sif(read_bench(options, reporter))
    if (folder := bench.settings.sif) is not None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"--sif: {folder} cannot be created: {error.strerror}") from error
    registry = bench.registry
    # By id. Variants of an agent share one image.
    wanted = {id: None if id == ENVIRONMENT else registry[id] for id in options.agents} or registry.load()
    sandbox = bench.building_sandbox()
    tags = []
    for id, agent in wanted.items():
        tags.append(sandbox.images.environment() if agent is None else sandbox.images.agent(agent))
        reporter(Note(f"{id}: {tags[-1]}"))
    failed = 0
    for tag in dict.fromkeys(tags) if options.check else ():
        reporter(Note(f"{tag}: checking"))
        try:
            sandbox.test_image(tag)
        except SandboxError as error:
            reporter(WarningNote(str(error)))
            failed += 1
    return 1 if failed else 0


def _clean(options: argparse.Namespace) -> int:
    how: dict[str, Any] = {"kept": options.kept, "dry_run": options.dry_run, "reporter": Lines(print)}
    found = clean_all(**how)
    for sandbox in _added_sandboxes(Bench()):
        if clean := getattr(sandbox, "clean", None):
            found += clean(**how)
    if not found:
        print("killed sessions have left nothing behind")
    return 0
