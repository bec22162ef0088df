"""Logs what an agent can and cannot access in its sandbox. Needs only Python.

It sends nothing beyond this machine unless ``--connect`` or ``--lookup`` is given: checking for a route to the internet
does not need a packet.
"""

from __future__ import annotations

import argparse
import os
import pwd
import resource
import shutil
import socket
import threading
import urllib.request
from collections.abc import Callable
from pathlib import Path

# The variables of every sandbox. Others may be secrets, so only their names are printed.
PUBLIC = (
    "AGENT_DIR",
    "CODE_DIR",
    "COMPETITION_ID",
    "CUDA_VISIBLE_DEVICES",
    "DATA_DIR",
    "HOME",
    "LANG",
    "LOGS_DIR",
    "PATH",
    "PYTHONUNBUFFERED",
    "SEED",
    "SUBMISSION_DIR",
    "TIME_LIMIT_SECS",
    "TMPDIR",
    "VALIDATION_URL",
)
SECONDS = 2.0
MAX_ENTRIES = 200_000
DATA = Path(os.environ.get("DATA_DIR", "/home/data"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--connect", metavar="HOST:PORT", default="", help="try to open a connection")
    parser.add_argument("--lookup", metavar="NAME", default="", help="try to look a name up")
    options, _ = parser.parse_known_args()

    section("variables")
    for name in PUBLIC:
        print(f"{name}={os.environ[name]}" if name in os.environ else f"{name} is not set")
    print("others, names only:", ", ".join(sorted(os.environ.keys() - set(PUBLIC))) or "none")

    section("machine")
    print("user:", os.getuid())
    print("processors:", len(os.sched_getaffinity(0)), "of", os.cpu_count())
    print("memory:", memory())
    print("disk:", attempt(lambda: f"{shutil.disk_usage(Path.home()).free / 1e9:.1f} GB free in {Path.home()}"))
    print("GPUs:", ", ".join(sorted(path.name for path in Path("/dev").glob("nvidia[0-9]*"))) or "none")

    section("files")
    print(f"{DATA}:", attempt(lambda: ", ".join(sorted(path.name for path in DATA.iterdir())[:20])))
    print(f"{DATA} is", "WRITABLE" if writable(DATA) else "read-only")
    for name in ("SUBMISSION_DIR", "LOGS_DIR", "CODE_DIR"):
        folder = Path(os.environ.get(name, f"/home/{name.split('_')[0].lower()}"))
        print(f"{folder} is", "writable" if writable(folder) else "READ-ONLY")
    found = private_answers()
    print("private answers:", f"FOUND {', '.join(map(str, found[:5]))}" if found else "not found")
    print("Docker socket:", "FOUND" if Path("/var/run/docker.sock").exists() else "not found")

    section("network")
    proxies = sorted(name for name in os.environ if name.lower().endswith("_proxy"))
    print("proxy variables:", ", ".join(proxies) or "none")
    print("route to the internet:", attempt(route))
    if options.connect:
        host, _, port = options.connect.rpartition(":")
        print(f"connection to {options.connect}:", attempt(lambda: connect(host, int(port))))
    if options.lookup:
        print(f"lookup of {options.lookup}:", attempt(lambda: socket.gethostbyname(options.lookup)))
    url = os.environ.get("VALIDATION_URL", "http://localhost:5000")
    print(f"checker at {url}/health:", attempt(lambda: health(f"{url}/health")))


def section(title: str) -> None:
    print(f"\n== {title}", flush=True)


def attempt(action: Callable[[], str]) -> str:
    """Return the result of an action, or why it failed, after a few seconds at most."""
    results: list[str] = []

    def act() -> None:
        try:
            results.append(action())
        except (OSError, ValueError) as error:
            results.append(f"no ({error})")

    # In a thread, because name lookups have no timeout.
    thread = threading.Thread(target=act, daemon=True)
    thread.start()
    thread.join(SECONDS + 0.5)
    return results[0] if results else f"no (nothing after {SECONDS:g} s)"


def route() -> str:
    """Report the route. Connecting a datagram socket selects a route without sending anything."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
        datagrams.connect(("1.1.1.1", 443))
        return f"there is one, from {datagrams.getsockname()[0]}"


def connect(host: str, port: int) -> str:
    with socket.create_connection((host, port), SECONDS):
        return "yes"


def health(url: str) -> str:
    without_proxy = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with without_proxy.open(url, timeout=SECONDS) as answer:
        return f"{answer.status} {answer.read(200).decode(errors='replace')}"


def memory() -> str:
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    limits = [] if limit == resource.RLIM_INFINITY else [f"{limit / 1e9:.1f} GB a process"]
    group = Path("/sys/fs/cgroup/memory.max")
    if group.is_file() and (value := group.read_text().strip()).isdigit():
        limits.append(f"{int(value) / 1e9:.1f} GB for the control group")
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    return f"{total:.1f} GB" + (f", limited to {' and '.join(limits)}" if limits else "")


def writable(folder: Path) -> bool:
    """Test by writing: permission bits do not apply to root, and say little about a read-only mount."""
    probe = folder / ".probe"
    try:
        probe.touch()
        probe.unlink()
    except OSError:
        return False
    return True


def private_answers() -> list[Path]:
    """Find folders ``private`` with a sibling ``public``, near the places where an agent would look first."""
    homes = (Path.home(), Path(pwd.getpwuid(os.getuid()).pw_dir))
    # The data may be a link, or the store's own folder, whose sibling contains the answers.
    roots = [DATA.parent, DATA.resolve().parent, Path.home(), *(home / ".cache" / "mlebench" for home in homes)]
    roots += [Path(store) for name, store in os.environ.items() if name == "MLEBENCH_DATA_DIR"]
    roots += [Path("/home"), Path("/private"), Path("/mlebench")]
    found: list[Path] = []
    budget = MAX_ENTRIES
    for root in dict.fromkeys(roots):
        for folder, names, files in os.walk(root):
            budget -= len(names) + len(files)
            if budget < 0:
                return found
            if {"private", "public"} <= set(names) and (private := Path(folder) / "private") not in found:
                found.append(private)
            if len(Path(folder).parts) - len(root.parts) >= 5:
                names.clear()
    return found


if __name__ == "__main__":
    main()
