"""Builds of SIF files. A fake of the program stands in for Apptainer, and does what an image's programs could do."""

from __future__ import annotations

import shlex
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import psutil
import pytest

from pytest_mlebench import Bench, default_agents
from pytest_mlebench.errors import SandboxError
from pytest_mlebench.extras.apptainer import probe
from pytest_mlebench.extras.apptainer.images import SifImages
from pytest_mlebench.extras.apptainer.program import InstalledProgram
from pytest_mlebench.extras.apptainer.sandbox import ApptainerSandbox
from pytest_mlebench.sandbox.docker.client import ContainerOptions
from pytest_mlebench.sandbox.docker.images import Images
from tests.processes import processes_of
from tests.sandbox.scripted import script_agent

APPTAINER = """#!/bin/sh
for word; do
    case $word in *:/mnt) work=${{word%:/mnt}} ;; esac
    part=$previous previous=$word
done
cp "$work/image.def" {log}
printf /home/agent >"$work/workdir"
echo image >"$part"
{attack}
"""
PRIVATE = "mlebench-agent-private-0123456789abcdef"


def images(folder: Path, attack: str = "", base_image: str | None = None, **limits: Any) -> SifImages:
    """The images in a folder of a machine that has only the fake. Its log is the last definition."""
    program = folder / "apptainer"
    program.write_text(APPTAINER.format(log=shlex.quote(str(folder / "log")), attack=attack))
    program.chmod(0o755)
    bench = Bench(sandbox="apptainer", build_network="full", sif=folder / "sif", base_image=base_image)
    found = SifImages(bench, **limits)
    vars(found).update(_program=InstalledProgram(str(program), "1.0"), _engine=None)
    return found


def test_a_build_is_published_with_its_metadata(tmp_path: Path) -> None:
    built = images(tmp_path)
    tag = built.environment()
    assert built.file(tag).read_text() == "image\n" and built.workdir(tag) == "/home/agent"


@pytest.mark.parametrize(
    ("attack", "problem"),
    [
        *(
            (f'cd "$work"; rm workdir; {command}', "replaced the file with the path of its working directory")
            for command in (
                "printf /secret >context/x; ln -s context/x workdir",
                "mkfifo workdir",
                "mkdir workdir",
                "printf '/\\377' >workdir",
                "printf tmp >workdir",
                "printf '/a\\nb' >workdir",
                "head -c 5000 /dev/zero | tr '\\0' / >workdir",
                "true",
            )
        ),
        ("head -c 30000000 /dev/zero | tr '\\0' x; echo; echo FATAL: why; exit 1", "does not build: why; its log"),
        ("head -c 2000 /dev/zero >$part", "has 1.953 KiB; the limit is 1000 bytes"),
        ("sleep 30", "took longer than 2 s"),
    ],
)
def test_what_an_image_does_during_its_build_is_bounded(attack: str, problem: str, tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match=problem) as caught:
        images(tmp_path, attack, build_seconds=2.0, max_bytes=1000).environment()
    assert len(str(caught.value)) < 50_000
    assert [path.suffix for path in (tmp_path / "sif").iterdir()] == [".lock"]


@pytest.mark.parametrize(
    ("base", "option", "source"),
    [
        ("mlebench-env", None, "localimage"),
        (PRIVATE, None, "docker"),
        (PRIVATE.replace("private-", "private:"), None, "docker"),
        ("mycompany/base", None, "docker"),
        ("${AGENT_DIR}/images/private.sif", None, "docker"),  # not a build argument, but its default
        ("mycompany/base", "mycompany/base", "localimage"),
        ("debian:trixie-slim", None, "localimage"),  # bundled agents use it
    ],
)
def test_an_agents_base_is_a_local_file_only_if_the_user_or_this_package_names_it(
    base: str, option: str | None, source: str, tmp_path: Path
) -> None:
    agent = script_agent(folder=tmp_path / "own", dockerfile=tmp_path / "own/Dockerfile")
    built = images(tmp_path, base_image=option)
    tag = built.environment()
    for name in (PRIVATE, "mycompany-base", "debian-trixie-slim"):
        (built.folder / f"{name}.sif").touch()
    agent.folder.mkdir()
    agent.dockerfile.write_text(f"ARG AGENT_DIR=python\nFROM {base}\n")
    recipe = built._agent(agent)
    built._build(recipe, recipe.tag(), built._program)  # type: ignore[arg-type]
    found = (tmp_path / "log").read_text()
    assert found.startswith(f"Bootstrap: {source}\n")
    if base == "mlebench-env":
        assert f"From: {built.file(tag)}\n" in found
    else:
        built.environment(base)  # the same for its base_image
        assert (tmp_path / "log").read_text().startswith(f"Bootstrap: {source}\n")


@pytest.mark.parametrize("kind", ["file", "folder", "missing"])
def test_an_absolute_base_image_is_never_fetched(kind: str, tmp_path: Path) -> None:
    base = tmp_path / "base"
    if kind != "missing":
        base.touch() if kind == "file" else base.mkdir()
    images(tmp_path, base_image=str(base)).environment()
    assert (tmp_path / "log").read_text().startswith(f"Bootstrap: localimage\nFrom: {base}\n")


@pytest.mark.parametrize("way", ["Docker", "Dockerfile"])
def test_the_image_that_is_probed_is_made_with_an_agents_own(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own base image could report anything too."""
    made: list[str] = []

    def make(self: SifImages, tag: str, *_: object) -> None:
        made.append(tag)
        self.file(tag).touch()

    monkeypatch.setattr(SifImages, "_build_sif", make)
    found = images(tmp_path)
    agent = script_agent(base_image="debian:trixie-slim")
    expected = [found._environment(None).tag(), found._agent(agent).tag()]
    if way == "Docker":
        stand_in = SimpleNamespace(
            environment=lambda base: base, agent=str, workdir=str, save=lambda image, archive: archive.touch()
        )
        vars(found)["_engine"] = SimpleNamespace(images=stand_in)
    else:
        expected.insert(1, found._environment(agent.base_image).tag())
    assert found.trusted(agent, found.agent(agent)) == found._environment(None).tag()
    assert made == expected


@pytest.mark.parametrize("kind", ["sparse", "deep"])
def test_the_size_of_an_image_is_known_without_reading_a_folder_that_is_too_large(kind: str, tmp_path: Path) -> None:
    agent = script_agent(folder=tmp_path / "own", dockerfile=tmp_path / "own/Dockerfile")
    (tmp_path / "own" / "/".join("d" * 60 if kind == "deep" else "d")).mkdir(parents=True)
    with (tmp_path / "own/file").open("w") as file:
        file.truncate(1 << 40 if kind == "sparse" else 1)
    for found in (images(tmp_path), Images(Mock(), ContainerOptions())):
        with pytest.raises(SandboxError, match="own is too large: the limits are 20,000 files, 1 GiB and 50 levels"):
            found.built(agent)


def test_a_folder_of_images_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    found = images(tmp_path)
    found.folder = Path("/proc/sif")
    with pytest.raises(SandboxError, match=r"cannot be stored in /proc/sif: .*; name another folder with --sif"):
        found.environment()


ABLE = probe.Abilities(writable=True, filtered=True, pinned=True, counted=True)


def test_the_probe_uses_no_image_that_an_agent_could_have_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox = ApptainerSandbox(Bench(sandbox="apptainer", build_network="full", sif=tmp_path / "sif"))
    sandbox.images = images(tmp_path)
    vars(sandbox)["_program"] = sandbox.images._program
    probed: list[str] = []

    def pretend(image: str, *_: object) -> probe.Abilities:
        probed.append(image)
        return ABLE

    monkeypatch.setattr(sandbox, "_probe", pretend)
    own, bundled = script_agent(), default_agents()["dummy"]
    assert sandbox.images.trusted(own, "its-image") == "its-image"  # the environment cannot be had without a registry
    environment = sandbox.images.environment()
    assert sandbox.images.trusted(own, "its-image") == environment
    assert sandbox.images.trusted(bundled, "its-image") == "its-image"
    # `mlebench doctor`
    (sandbox.images.folder / "debian-bookworm-slim.sif").touch()
    (sandbox.images.folder / f"{PRIVATE}.sif").touch()
    assert [kind for kind, _ in sandbox.describe()] == ["ok", "ok"]
    sandbox.images.file(environment).unlink()
    (sandbox.images.folder / f"{PRIVATE}.sif").unlink()
    assert [kind for kind, _ in sandbox.describe()] == ["ok", "note"]
    assert probed == [sandbox.images.file(environment).stem]


def test_the_output_of_a_command_is_kept_in_part_and_its_time_limited() -> None:
    shell = InstalledProgram("/bin/sh", "1.0")
    output = shell.call("-c", "echo FATAL: no >&2; head -c 5000000 /dev/zero | tr '\\0' x; echo end")
    assert output.endswith("xend\n") and len(output) == 1 << 20
    with pytest.raises(SandboxError, match=r"^why$"):
        shell.call("-c", "echo FATAL: why >&2; echo output; exit 1")
    with pytest.raises(SandboxError, match=r"^/bin/sh took longer than 0\.5 s$"):
        shell.call("-c", "while true; do echo x; done", timeout=0.5)


def test_a_command_that_takes_too_long_leaves_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # a mark of its processes
    with pytest.raises(SandboxError, match="took longer"):
        InstalledProgram("/bin/sh", "1.0").call("-c", "sh -c 'sleep 600; true' & wait", timeout=1)
    psutil.wait_procs(left := processes_of(tmp_path), timeout=5)
    assert not [process for process in left if process in processes_of(tmp_path)]
