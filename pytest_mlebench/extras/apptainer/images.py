"""SIF files in a folder that all nodes share: built once, named by a digest of their sources, and read by every run.

An image is exported from Docker or Podman if one is available, and otherwise built from its Dockerfile. A machine with
Docker but no Apptainer writes an archive, ``NAME.tar``, which the first machine with Apptainer converts to a SIF file.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from pytest_mlebench import Agent, DockerSandbox, Note, SandboxError, Step, default_agents
from pytest_mlebench import defaults as general
from pytest_mlebench.bench import Bench
from pytest_mlebench.errors import unusable
from pytest_mlebench.extras.apptainer import definition as definition_module
from pytest_mlebench.extras.apptainer.definition import BUILD, Script, definition
from pytest_mlebench.extras.apptainer.disk import scratch_folder
from pytest_mlebench.extras.apptainer.program import InstalledProgram, environment, find_program, last_line, run
from pytest_mlebench.io.files import bundled, digest_of, publish, read_regular, write_text
from pytest_mlebench.io.units import format_size
from pytest_mlebench.io.values import json_text, loads
from pytest_mlebench.sandbox import dockerfile
from pytest_mlebench.sandbox.contract import check_agent_folder

_TAIL_LINES, _MAX_LINE = 40, 1000
_MAX_PATH = 4096
_NOT_FETCHED = "conveyor failed to get"
"""Text in Apptainer's log if an image cannot be fetched from a registry."""
_FAST_COMPRESSION = ("--mksquashfs-args", "-comp gzip -Xcompression-level 1")
"""Takes half the time, and the file is a twelfth larger. Every installation can read gzip."""


class SifImages:
    """The images of agents in ``folder``: ``NAME-DIGEST.sif``, each with a small JSON file of metadata."""

    def __init__(
        self,
        bench: Bench,
        *,
        build_seconds: float = general.BUILD_SECONDS,
        max_bytes: int = general.IMAGE_BYTES,
    ) -> None:
        self.folder = bench.settings.sif or bench.data_dir / ".sif"
        self._bench, self._reporter = bench, bench.reporter
        self._build_seconds, self._max_bytes = build_seconds, max_bytes
        options = bench.container_options
        self._base, self._heavy = options["base_image"] or dockerfile.BASE_IMAGE, options["heavy"] or ""
        self._build_network: dockerfile.BuildNetwork = options["build_network"]
        self._bundled_network: dockerfile.BuildNetwork = options.get("bundled_build_network") or self._build_network

    def environment(self, base_image: str | None = None) -> str:
        return self._provide(self._environment(base_image), base_image)

    def agent(self, agent: Agent) -> str:
        check_agent_folder(agent)
        dockerfile.Rules(_NoImages(), (self._base,)).check_base_image(agent)
        return self._provide(self._agent(agent), agent.base_image, agent)

    def trusted(self, agent: Agent, image: str) -> str:
        """The image to probe: the environment's, as an agent's own image could report anything.

        The folder lacks it only if it was copied in part.
        """
        file = self.file(self._environment(None).tag())
        here = file.is_file() or file.with_suffix(".tar").is_file()
        return self.environment() if here and not agent.bundled else image

    def built(self, agent: Agent) -> int | None:
        check_agent_folder(agent)
        file = self.file(self._agent(agent).tag())
        return file.stat().st_size if file.is_file() else None

    def build_network_of(self, agent: Agent) -> dockerfile.BuildNetwork:
        return self._bundled_network if agent.bundled else self._build_network

    def file(self, tag: str) -> Path:
        """The path of the image with this tag, which may not exist yet."""
        return self.folder / f"{tag.replace(':', '-')}.sif"

    def workdir(self, tag: str) -> str:
        """The working directory of an image."""
        return str(self._metadata(tag).get("workdir") or "/")

    def digest(self, tag: str) -> str:
        """The digest of an image's SIF file when it was built; empty if unknown."""
        return str(self._metadata(tag).get("digest") or "")

    def _metadata(self, tag: str) -> Mapping[str, Any]:
        file = self.file(tag).with_suffix(".json")
        try:
            found = loads(file.read_bytes())
        except (OSError, ValueError):
            found = None
        return found if isinstance(found, dict) else {}

    def _environment(self, base_image: str | None) -> dockerfile.Recipe:
        arguments = {"BASE_IMAGE": base_image or self._base, "HEAVY": self._heavy}
        return replace(dockerfile.environment_recipe(bundled("environment"), arguments), builder=_builder())

    def _agent(self, agent: Agent) -> dockerfile.Recipe:
        recipe = dockerfile.agent_recipe(agent, self._environment(agent.base_image).tag(), self.build_network_of(agent))
        return replace(recipe, builder=_builder())

    @cached_property
    def _program(self) -> InstalledProgram | None:
        try:
            return find_program()
        except SandboxError:
            return None

    @cached_property
    def _engine(self) -> DockerSandbox | None:
        """The sandbox of Docker or Podman, if one is available."""
        for kind in ("docker", "podman") if shutil.which("podman") else ("docker",):
            try:
                return self._bench.with_settings(sandbox=kind).container_sandbox(kind)
            except SandboxError:
                continue
        return None

    def _provide(self, recipe: dockerfile.Recipe, base_image: str | None, agent: Agent | None = None) -> str:
        """Return the tag of an agent's image, or of the environment's, after building it if it is missing."""
        tag = recipe.tag()
        file = self.file(tag)
        archive = file.with_suffix(".tar")
        try:
            if file.is_file():
                return tag
            self.folder.mkdir(parents=True, exist_ok=True)
            with dockerfile.one_builder(self.folder, tag, self._reporter):
                if file.is_file():  # another process built it while we waited
                    return tag
                if not archive.is_file():
                    if agent is not None and not agent.bundled:
                        self.environment()  # for ``trusted``, while images can be built
                    if self._engine is not None:
                        images = self._engine.images
                        image = images.environment(base_image) if agent is None else images.agent(agent)
                        metadata = {"workdir": images.workdir(image)}
                        write_text(archive.with_suffix(".json"), json_text(metadata))
                        images.save(image, archive)
                if self._program is None:
                    if not archive.is_file():
                        raise SandboxError(f"image {tag} cannot be built: neither Docker nor Apptainer is available")
                    note = f"{archive}: the first machine with Apptainer that needs it converts it to SIF"
                    self._reporter(Note(note))
                    return tag
                self._reporter(Step(tag, "building"))
                if archive.is_file():
                    self._build_sif(tag, self._program, f"docker-archive:{archive}")
                    archive.unlink()
                else:
                    if agent is not None:
                        self.environment(base_image)
                    self._build(recipe, tag, self._program)
        except OSError as error:
            raise SandboxError(
                f"image {tag} cannot be stored in {self.folder}: {unusable(error)}; name another folder with --sif"
            ) from error
        return tag

    def _build(self, recipe: dockerfile.Recipe, tag: str, program: InstalledProgram) -> None:
        """Build an image from its Dockerfile, as root in a user namespace."""
        source = f"{recipe.folder}/Dockerfile"
        if recipe.network != "full":
            raise SandboxError(
                f"image {tag} cannot be built with --build-network={recipe.network}: Apptainer's builds can reach the "
                "whole network. Allow that with --build-network=full, or build the image with Docker"
            )
        with scratch_folder() as work:
            context = work / "context"
            _copy_context(recipe, context)
            # The end of the script does this for SIF files.
            text = recipe.dockerfile.removesuffix(dockerfile.OWNED_BY_AGENT)
            script = Script(text, context, recipe.arguments, trusted=not recipe.parent)
            try:
                if recipe.parent:
                    dockerfile.Rules(_NoImages(), (recipe.parent,)).check(recipe.dockerfile)
                (work / "build.sh").write_text(script.script())
            except SandboxError as error:
                raise SandboxError(f"{source}: {error}") from None
            base = self._base_file(script.base)
            # Any other file could be the image of another agent.
            named = {recipe.parent, self._base, *(agent.base_image for agent in default_agents().load().values())}
            usable = script.base in named and (base.is_file() or script.base.startswith("/"))
            (work / "image.def").write_text(definition(base if usable else script.base))
            try:
                self._build_sif(tag, program, f"{work}/image.def", work)
            except SandboxError as error:
                if _NOT_FETCHED not in str(error):
                    raise
                raise SandboxError(
                    f"{error}\n{script.base} cannot be fetched: if its registry cannot be reached from here, "
                    f"{'' if script.base in named else f'add --base-image={script.base} and '}put a SIF file of it "
                    f"there as {base}"
                ) from error

    def _base_file(self, base: str) -> Path:
        """The SIF file of a base image: the environment, or a file of the user, who may have no registry."""
        if base == self._base and base.startswith("/"):
            return Path(base)
        file = self.file(base)
        return file if file.is_file() else self.folder / f"{re.sub(r'[^a-z0-9.]+', '-', base)}.sif"

    def _build_sif(self, tag: str, program: InstalledProgram, source: str, work: Path | None = None) -> None:
        """Build a SIF file, in ``work`` if its source is a definition, and publish it with its metadata.

        Raises SandboxError with the end of the log.
        """
        options = [] if work is None else ["--fakeroot", "--bind", f"{work}:{BUILD}"]
        file = self.file(tag)
        part = file.with_name(f".{file.name}.part")
        part.unlink(missing_ok=True)
        command = [program.path, "build", "--force", *_FAST_COMPRESSION, *options, str(part), source]
        try:
            status, log, _ = run(command, environment(builds=True), self._build_seconds, merged=True)
            if status or not part.is_file():
                end = "\n".join(line[:_MAX_LINE] for line in log.splitlines()[-_TAIL_LINES:])
                raise SandboxError(f"image {tag} does not build: {last_line(log)}; its log ends with:\n{end}")
            if (size := part.stat().st_size) > self._max_bytes:
                limit = format_size(self._max_bytes)
                raise SandboxError(f"image {tag} has {format_size(size)}; the limit is {limit}")
            info = self._metadata(tag) if work is None else {"workdir": _read_workdir(tag, work / "workdir")}
            about = {**info, "digest": f"sha256:{digest_of(part)}", "builder": program.version}
            write_text(file.with_suffix(".json"), json_text(about))
            publish(part, file)
        except subprocess.TimeoutExpired as error:
            raise SandboxError(f"image {tag}: the build took longer than {error.timeout:g} s") from error
        finally:
            part.unlink(missing_ok=True)


def _read_workdir(tag: str, file: Path) -> str:
    """Read the path that a build wrote. Its programs could put anything there, such as a link to another file."""
    text = ""
    with suppress(OSError, ValueError):
        text = read_regular(file, _MAX_PATH, follow_links=False)
    if not text.startswith("/") or not text.isprintable():
        raise SandboxError(f"image {tag}: its build replaced the file with the path of its working directory")
    return text


@cache
def _builder() -> str:
    """A digest of our builder, so that images of another version of it get other names.

    It does not include Apptainer's version, since a machine without Apptainer must use the same names for its archives.
    """
    digest = hashlib.sha256(Path(definition_module.__file__).read_bytes())
    digest.update(" ".join(_FAST_COMPRESSION).encode())
    return digest.hexdigest()


class _NoImages:
    """Stands in for an engine's images if there is no engine: nothing is known of them."""

    def triggers(self, image: str) -> None:
        return None

    def registries(self, image: str) -> tuple[str, ...]:
        return ()


def _copy_context(recipe: dockerfile.Recipe, context: Path) -> None:
    context.mkdir()
    for name in recipe.files():
        source, target = recipe.folder / name, context / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_symlink():
            target.symlink_to(source.readlink())
        elif source.is_dir():
            target.mkdir(exist_ok=True)
        else:
            shutil.copy2(source, target)
