"""`mlebench build --check`: the program that tests each library, and the heavy image that it checks."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import docker
import docker.errors
import pytest

from pytest_mlebench.errors import SandboxError
from pytest_mlebench.io.files import bundled
from pytest_mlebench.io.progress import Event, Note, Step, silent
from pytest_mlebench.records.outcome import Limits
from pytest_mlebench.sandbox.docker import container as container_module
from pytest_mlebench.sandbox.docker.client import ContainerOptions
from pytest_mlebench.sandbox.docker.container import run_self_test
from pytest_mlebench.sandbox.docker.images import Images
from pytest_mlebench.sandbox.docker.podman import open_client
from tests.sandbox.conftest import require_docker
from tests.sandbox.scripted import ENGINE, MB, docker_sandbox

TOOLS = ("gcc", "nm", "readelf")
needs_compiler = pytest.mark.skipif(not all(map(shutil.which, TOOLS)), reason=f"needs {', '.join(TOOLS)}")


def check(folder: Path, libraries: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    program = shutil.copy(bundled("environment") / "check.py", folder / "check.py")
    (folder / "libraries.txt").write_text(libraries)
    command = [sys.executable, program, *arguments]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment})


def compiled(path: Path, code: str, *options: str) -> Path:
    source = path.with_suffix(".c")
    source.write_text(code)
    subprocess.run(["gcc", "-shared", "-fPIC", "-w", "-o", path, source, *options], check=True)
    return path


@pytest.mark.full
def test_each_library_has_a_line_and_the_verdict_names_failures(tmp_path: Path) -> None:
    done = check(tmp_path, '# words\nnumpy==1\n\nnot-there\nwindows-only; sys_platform == "win32"\n')
    first, second, verdict = done.stdout.splitlines()
    assert first.startswith("ok      numpy ") and first.endswith(" s  works")
    assert second.startswith("FAILED  not-there ") and "No module named 'not_there'" in second
    assert (done.returncode, verdict, done.stderr) == (1, "check: not-there failed", "")


@pytest.mark.full
def test_a_library_that_ends_its_process_fails_alone(tmp_path: Path) -> None:
    (tmp_path / "dies.py").write_text("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
    done = check(tmp_path, "dies\nnumpy\n", PYTHONPATH=str(tmp_path))
    first, second, verdict = done.stdout.splitlines()
    assert first.startswith("FAILED  dies") and "ended by signal 11" in first
    assert second.startswith("ok ")
    assert (verdict, done.stderr) == ("check: dies failed", "")


@pytest.mark.full
def test_a_container_without_nvidias_driver_reports_what_to_install(tmp_path: Path) -> None:
    if shutil.which("nvidia-smi"):
        pytest.skip("this machine has NVIDIA's driver")
    done = check(tmp_path, "numpy\n", "gpus")
    assert "FAILED  GPU: driver" in done.stdout and "install NVIDIA's container toolkit" in done.stdout
    assert (done.returncode, done.stdout.splitlines()[-1]) == (1, "check: driver failed")


@needs_compiler
@pytest.mark.full
@pytest.mark.parametrize(
    ("status", "gpus", "line"),
    [
        (0, 2, "the driver shows 2"),
        (0, 0, "the NVIDIA driver shows no GPU in the container"),
        (999, 0, "does not start in the container (CUDA error 999)"),
    ],
)
def test_the_message_of_nvidias_driver_is_reported(tmp_path: Path, status: int, gpus: int, line: str) -> None:
    code = f"int cuInit(int x) {{ return {status}; }} int cuDeviceGetCount(int *n) {{ *n = {gpus}; return 0; }}"
    compiled(tmp_path / "libcuda.so.1", code)
    done = check(tmp_path, "numpy\n", "gpus", LD_LIBRARY_PATH=str(tmp_path))
    assert line in done.stdout
    assert done.returncode == (0 if gpus else 1)


# --- a torch for CUDA becomes one for the CPU

_FATBIN = 1 << 20
_TORCH = {
    "libcudart.so.12": "int cudaGetDeviceCount(int *n) { return 0; }",
    "libnccl.so.2": "const char *ncclGetErrorString(int e) { return 0; } int ncclSend(void) { return 0; }",
}


@needs_compiler
@pytest.mark.full
def test_a_torch_for_cuda_runs_without_nvidias_libraries_and_its_code_for_gpus(tmp_path: Path) -> None:
    site, nvidia = tmp_path / "site", tmp_path / "nvidia"
    libraries, metadata = site / "torch/lib", site / "torch-2.8.0.dist-info"
    for folder in (libraries, metadata, nvidia):
        folder.mkdir(parents=True)
    requirements = ["Requires-Dist: sympy", "Requires-Dist: nvidia-nccl-cu12==2", "Requires-Dist: triton==3"]
    (metadata / "METADATA").write_text("\n".join(["Name: torch", "Version: 2.8.0", *requirements, ""]))
    script = nvidia / "versions"
    script.write_text("libcudart.so.12 { cudaGetDeviceCount; };")
    versions = {"libcudart.so.12": [f"-Wl,--version-script={script}"]}
    for name, code in _TORCH.items():
        compiled(nvidia / name, code, f"-Wl,-soname,{name}", *versions.get(name, []))
    torch = compiled(
        libraries / "libtorch_cuda.so",
        f"""
        __attribute__((section(".nv_fatbin,\\"a\\",@progbits#"))) const char gpu_code[{_FATBIN}] = {{1}};
        const char after[] = "as it was";
        int cudaGetDeviceCount(int *); const char *ncclGetErrorString(int); int ncclSend(void);
        int devices(void) {{ int n; return cudaGetDeviceCount(&n); }}
        int sent(void) {{ return ncclSend(); }}
        const char *error(void) {{ return ncclGetErrorString(1); }}
        const char *text(void) {{ return after; }}
        """,
        *(str(nvidia / name) for name in _TORCH),
        *("-Wl,-rpath,$ORIGIN", "-Wl,--build-id"),
    )
    (libraries / "libtorch_cuda_linalg.so").touch()
    size = torch.stat().st_size
    program = bundled("environment") / "heavy/torch_for_cpu.py"
    environment = {**os.environ, "PYTHONPATH": str(site)}
    subprocess.run([sys.executable, program], env=environment, check=True)

    assert size - torch.stat().st_size > _FATBIN - 3 * 4096
    assert not (libraries / "libtorch_cuda_linalg.so").exists()
    assert (metadata / "METADATA").read_text() == "Name: torch\nVersion: 2.8.0\nRequires-Dist: sympy\n"
    load = f"""
import ctypes
torch = ctypes.CDLL({str(torch)!r})
torch.error.restype = torch.text.restype = ctypes.c_char_p
print(torch.devices(), torch.sent(), torch.text().decode(), torch.error().decode(), sep="; ")
"""
    done = subprocess.run([sys.executable, "-c", load], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("100; 100; as it was; no GPU: this torch is for the CPU\n", "")

    subprocess.run([sys.executable, program], env=environment, check=True)  # nothing left to do
    assert (
        subprocess.run([sys.executable, "-c", load], capture_output=True, text=True, check=True).stdout == done.stdout
    )


def test_the_packages_of_every_environment_have_one_pin_for_all_variants() -> None:
    folder = bundled("environment")

    def names(file: Path) -> set[str]:
        lines = [line.partition("#")[0].strip() for line in file.read_text().splitlines()]
        return {line.partition(";")[0].partition("[")[0].strip() for line in lines if line}

    pinned = names(folder / "heavy/constraints.txt")
    assert names(folder / "requirements.txt") <= pinned
    for variant in ("torch", "packages", "cpu", "cuda"):
        assert names(folder / f"heavy/{variant}.txt") <= {pin.partition("==")[0] for pin in pinned}


# --- the image, with small packages instead of large ones


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Images, str]]:
    require_docker()
    folder = tmp_path_factory.mktemp("small") / "environment"
    shutil.copytree(bundled("environment"), folder)
    for name, text in {"apt": "", "torch": "tqdm\n", "packages": "six\n", "cpu": "termcolor\n"}.items():
        (folder / f"heavy/{name}.txt").write_text(text)
    made: list[str] = []

    def report(event: Event) -> None:
        if isinstance(event, Step):
            made.append(event.subject)

    with closing(open_client(ENGINE)) as engine:
        nowhere = {"TORCH_CPU_INDEX": "http://localhost:9/"}
        options = ContainerOptions(heavy="cpu", build_arguments=nowhere)
        images = Images(engine, options, folder=folder, reporter=report)
        yield images, images.environment()
        for tag in made:
            with suppress(docker.errors.ImageNotFound):
                engine.client.images.remove(tag, force=True)


def lines_of_check(image: str) -> list[str]:
    lines: list[str] = []
    with closing(open_client(ENGINE)) as engine:

        def report(event: Event) -> None:
            assert isinstance(event, Note)
            lines.append(event.text)

        run_self_test(engine, image, limits=Limits(), reporter=report)
    return lines


def test_output_without_end_is_reported_in_part() -> None:
    notes: list[Event] = []
    lines = container_module._Lines(notes.append)
    for _ in range(256):
        lines.write(b"x" * (1 << 16))
    lines.write(b"\n" + b"line\n" * 10_000 + b"check: x failed\nhalf")
    assert lines.last == "check: x failed"
    assert notes == [Note("x" * 1000), *[Note("line")] * 999]


@pytest.mark.docker
@pytest.mark.full
@pytest.mark.parametrize(
    ("program", "limits", "problem"),
    [
        ("import time; time.sleep(60)", Limits(), "did not end within 2 seconds"),
        ("print(len(bytearray(1 << 29)))", Limits(memory=64 * MB), "its self-test exited with status 137"),
        (
            "import time; [open(f'/tmp/{k}', 'wb').write(bytes(1 << 22)) for k in range(16)]; time.sleep(30)",
            Limits(disk=16 * MB),
            r"its self-test filled the disk: \d+ MiB written, the limit is 16 MiB",
        ),
    ],
)
def test_an_image_whose_self_test_wants_more_than_a_run_fails(
    program: str, limits: Limits, problem: str, docker_engine: None
) -> None:
    image = docker_sandbox().images.environment()  # type: ignore[attr-defined]
    with closing(open_client(ENGINE)) as engine, pytest.raises(SandboxError, match=problem):
        run_self_test(
            engine,
            image,
            limits=limits,
            reporter=silent,
            program=("/opt/agent/bin/python", "-c", program),
            seconds=2.0 if "sleep(60)" in program else 60.0,
        )


@pytest.mark.docker
@pytest.mark.full
def test_a_heavy_image_is_built_without_access_to_the_torch_index_and_checks_itself(
    small: tuple[Images, str],
) -> None:
    _, image = small
    lines = lines_of_check(image)
    words = [line.split() for line in lines]
    assert {line[1] for line in words} == {"joblib", "numpy", "pandas", "scikit-learn", "scipy"} | {
        *("tqdm", "six", "termcolor")
    }
    assert {line[0] for line in words} == {"ok"}


@pytest.mark.docker
@pytest.mark.full
def test_a_library_broken_by_an_image_is_reported(small: tuple[Images, str]) -> None:
    _, image = small
    broken = f"{image}-broken"
    with closing(docker.from_env()) as client:
        remove = ["-c", "rm -r /opt/agent/lib/python3*/site-packages/termcolor"]
        container = client.containers.create(image, entrypoint="sh", command=remove)
        try:
            container.start()
            assert container.wait()["StatusCode"] == 0
            repository, _, tag = broken.partition(":")
            container.commit(repository, tag)
        finally:
            container.remove(force=True)
        try:
            with pytest.raises(SandboxError, match=rf"^image {broken}: check: termcolor failed$"):
                lines_of_check(broken)
        finally:
            client.images.remove(broken, force=True)
