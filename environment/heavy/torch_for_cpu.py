"""Converts a torch that was built for CUDA to a CPU version, a tenth of its size, if only PyPI's build is available.

On x86-64, PyPI's torch contains GPU code and does not start without NVIDIA's libraries, together several GB. The GPU
code is removed, and the libraries are replaced by stubs whose functions report that there is no GPU. Everything that
runs on the CPU stays as it was built. A torch that was built for the CPU is left unchanged.
"""

import re
import struct
import subprocess
import sys
import tempfile
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

CUDA_ONLY = ("libtorch_cuda_linalg.so", "libcaffe2_nvrtc.so")  # loaded when a GPU is first used
NVIDIA = re.compile(r"lib(cu|nv|nccl)")
PREFIXES = {"nccl": "libnccl", "cuFile": "libcufile", "cusparseLt": "libcusparseLt", "nvshmem": "libnvshmem_host"}
"""Library by the prefix of functions that have no symbol version, from which their library would be known."""
NO_DEVICE = 100  # cudaErrorNoDevice
PAGE = 4096
LOAD, NOTE = 1, 4  # types of segments


def main():
    try:
        torch = distribution("torch")
    except PackageNotFoundError:
        return
    site = Path(torch.locate_file(""))
    libraries = site / "torch" / "lib"
    if not (libraries / "libtorch_cuda.so").exists():
        return
    for name in CUDA_ONLY:
        (libraries / name).unlink(missing_ok=True)
    users = [*libraries.glob("*.so*"), *site.glob("torchvision/*.so"), *site.glob("torchaudio/**/*.so")]
    replace_nvidia(libraries, users)
    drop_code(libraries / "libtorch_cuda.so")
    forget_requirements(Path(torch.locate_file(f"torch-{torch.version}.dist-info")) / "METADATA")


def replace_nvidia(folder, users):
    """Create stubs of NVIDIA's libraries in the folder, with the functions that these files need."""
    needed, functions = set(), set()
    for path in users:
        needed |= set(re.findall(r"\(NEEDED\).*\[(.*)\]", output("readelf", "-d", path)))
        functions |= {line.split()[-1] for line in output("nm", "-D", "--undefined-only", path).splitlines()}
    for library in sorted(needed):
        if NVIDIA.match(library) and not (folder / library).exists():
            own = sorted(function for function in functions if belongs(function, library))
            compile_library(folder / library, own)


def belongs(function, library):
    name, _, version = function.partition("@")
    if version.startswith("lib"):
        return version == library
    return any(name.startswith(prefix) and library.startswith(start) for prefix, start in PREFIXES.items())


def compile_library(path, functions):
    versions = {}
    code = []
    for function in functions:
        name, _, version = function.partition("@")
        versions.setdefault(version, []).append(name)
        if re.search(r"Error(String|Name)$|^ncclGetLastError$", name):
            code.append(f'const char *{name}(void) {{ return "no GPU: this torch is for the CPU"; }}\n')
        else:
            code.append(f"int {name}(void) {{ return {NO_DEVICE}; }}\n")
    versions.pop("", None)
    with tempfile.TemporaryDirectory() as work:
        source, script = Path(work, "library.c"), Path(work, "versions")
        source.write_text("".join(code))
        script.write_text("".join(f"{version} {{ {'; '.join(names)}; }};\n" for version, names in versions.items()))
        options = [f"-Wl,--version-script={script}"] if versions else []
        output("gcc", "-shared", "-fPIC", "-w", "-o", path, source, f"-Wl,-soname,{path.name}", *options)


def drop_code(path):
    """Remove the GPU code (section .nv_fatbin) from a library.

    The rest keeps its address and moves in the file. The segment that contained the code becomes two. The second one
    replaces a note in the segment table, because the table cannot grow.
    """
    section = re.search(r"\.nv_fatbin\s+PROGBITS\s+\w+\s+(\w+)\s+(\w+)", output("readelf", "-SW", path))
    with path.open("rb") as file:
        header = bytearray(file.read(64))
        table, (size, number) = *struct.unpack_from("<Q", header, 32), struct.unpack_from("<HH", header, 54)
        file.seek(table)
        segments = [list(struct.unpack("<IIQQQQQQ", file.read(size))) for _ in range(number)]
    note = next((segment for segment in segments if segment[0] == NOTE), None)
    if section is None or note is None:
        return
    start = -(-int(section[1], 16) // PAGE) * PAGE
    end = (int(section[1], 16) + int(section[2], 16)) // PAGE * PAGE
    if end <= start:
        return
    segments.remove(note)
    changed = []
    for kind, flags, offset, address, physical, in_file, in_memory, alignment in segments:
        if kind == LOAD and offset <= start and end <= offset + in_file:
            before, cut = start - offset, end - offset
            changed.append((kind, flags, offset, address, physical, before, before, alignment))
            rest = (in_file - cut, in_memory - cut, alignment)
            changed.append((kind, flags, start, address + cut, physical + cut, *rest))
        else:
            moved = offset - (end - start) if offset >= end else offset
            changed.append((kind, flags, moved, address, physical, in_file, in_memory, alignment))
    struct.pack_into("<Q", header, 40, 0)  # no section table: it is not needed to load a library
    struct.pack_into("<HHH", header, 58, 0, 0, 0)
    smaller = path.with_suffix(".smaller")
    with path.open("rb") as old, smaller.open("wb") as new:
        new.write(old.read(start))
        old.seek(end)
        while block := old.read(1 << 24):
            new.write(block)
        new.seek(0)
        new.write(header)
        new.seek(table)
        new.write(b"".join(struct.pack("<IIQQQQQQ", *segment) for segment in changed))
    smaller.chmod(path.stat().st_mode)
    smaller.replace(path)


def forget_requirements(metadata):
    """Remove the requirements, or pip would install NVIDIA's libraries with the next package that needs torch."""
    text = metadata.read_text(encoding="utf-8")
    metadata.write_text(re.sub(r"(?m)^Requires-Dist: (nvidia-|triton).*\n", "", text), encoding="utf-8")


def output(*command):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"torch cannot be converted for the CPU: {command[0]}: {done.stderr.strip()}")
    return done.stdout


if __name__ == "__main__":
    main()
