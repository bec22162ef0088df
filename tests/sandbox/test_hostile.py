"""Hostile agents: each test is an attack, and fails if the attack succeeds.

What an attack reports in its log is never all that a test relies on where the harness can look for itself.
"""

from __future__ import annotations

import io
import resource
import socket
import tarfile
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import docker
import pytest
from scripted import MB, SAMPLE, Runner, docker_sandbox, make_runner

from pytest_mlebench.sandbox import Ending
from pytest_mlebench.sandbox.archive import collect_archive
from pytest_mlebench.sandbox.collect import Collector

pytestmark = pytest.mark.docker

SUBMIT = 'cp "$DATA_DIR/sample_submission.csv" "$SUBMISSION_DIR/submission.csv"'
# Says `open HOST` for each address that takes a connection.
REACH = """
import socket, sys
for target in sys.argv[1:]:
    host, _, port = target.rpartition(":")
    try:
        socket.create_connection((host, int(port)), 2).close()
        print("open", target)
    except OSError as error:
        print("closed", target, error)
"""


@pytest.fixture
def attack(run_in_container: Runner) -> Runner:
    return run_in_container


# --- the answers


def test_answers_are_nowhere_in_the_file_system(attack: Runner) -> None:
    result = attack(
        "grep -rIl --exclude-dir=proc --exclude-dir=sys 'ANSWER-' / 2>/dev/null; "
        "find / -xdev -name 'answers*' -o -name private -path '*prepared*' 2>/dev/null; "
        "cat /proc/mounts | grep -i prepared/private; "
        f"ls {attack.private} {attack.public}/../private /home/data/../private 2>/dev/null; echo searched"
    )
    assert result.log.split() == ["searched"]


def test_the_checker_serves_no_files_and_tells_no_answers(attack: Runner) -> None:
    result = attack(
        f"for path in / /answers.csv /../../private/answers.csv /validate {attack.private}/answers.csv; do "
        'curl -s --path-as-is "$VALIDATION_URL$path"; done; '
        f"curl -s -F 'file=@/etc/hostname;filename={attack.private}/answers.csv' $VALIDATION_URL/validate; "
        f"curl -s -F 'file=file://{attack.private}/answers.csv' $VALIDATION_URL/validate; "
        f"curl -s -F 'path={attack.private}/answers.csv' $VALIDATION_URL/validate; "
        "curl -s -X DELETE $VALIDATION_URL/validate; curl -s -X PUT -d x $VALIDATION_URL/validate"
    )
    assert "Not found" in result.log
    assert "ANSWER" not in result.log
    assert (attack.private / "answers.csv").exists()


def test_the_harnesss_sockets_are_out_of_reach(attack: Runner) -> None:
    result = attack(
        "cd /opt/mlebench/private/harness 2>/dev/null && echo in; "
        "for name in line checker proxy; do "
        "curl -s --unix-socket /opt/mlebench/private/harness/$name.sock http://x/health && echo reached; done; "
        "ls /proc/1/root/opt/mlebench/private /proc/1/fd 2>/dev/null; echo tried"
    )
    assert result.log.split() == ["tried"]


# --- the network


@pytest.fixture
def listener() -> Iterator[tuple[int, list[object]]]:
    """A port that this machine offers on all its addresses, and who called."""
    with closing(socket.create_server(("0.0.0.0", 0))) as server:
        callers: list[object] = []

        def serve() -> None:
            while True:
                try:
                    callers.append(server.accept()[1])
                except OSError:
                    return

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1], callers
        server.shutdown(socket.SHUT_RDWR)


def _own_addresses() -> list[str]:
    import psutil

    addresses = [a.address for entries in psutil.net_if_addrs().values() for a in entries]
    return sorted({address for address in addresses if address.count(".") == 3})


@pytest.mark.parametrize("network", ["llm", "none"])
def test_the_hosts_network_is_out_of_reach(
    network: str, listener: tuple[int, list[object]], docker_engine: None, tmp_path: Path
) -> None:
    port, callers = listener
    attack = make_runner(docker_sandbox(network=network), tmp_path)
    targets = [f"{host}:{port}" for host in [*_own_addresses(), "host.docker.internal", "gateway.docker.internal"]]
    result = attack(f"python3 -c '{REACH}' {' '.join(targets)}; ls /sys/class/net; cat /proc/net/route | tail -n +2")
    assert "open" not in result.log
    assert not callers
    assert result.log.split()[-1] == "lo"  # no other interface, no route


def test_the_proxy_does_not_lead_to_the_host(listener: tuple[int, list[object]], attack: Runner) -> None:
    port, callers = listener
    hosts = [*_own_addresses(), "localhost", "0.0.0.0", "[::1]", "2130706433", "host.docker.internal", "127.1"]
    tries = " ".join(f"http://{host}:{port}/" for host in hosts)
    result = attack(
        f"for url in {tries}; do curl -s -o /dev/null -w '%{{http_code}}\\n' --noproxy '' -x $HTTP_PROXY $url; "
        "curl -s -p -o /dev/null --noproxy '' -x $HTTP_PROXY $url && echo tunnelled; done; "
        f"curl -s --socks5 localhost:3128 http://127.0.0.1:{port}/ && echo socks"
    )
    assert set(result.log.split()) <= {"403", "000"}
    assert not callers
    assert all(connection["allowed"] is False for connection in result.execution.sandbox["connections"])


def test_the_metadata_address_is_out_of_reach(attack: Runner) -> None:
    result = attack(
        f"python3 -c '{REACH}' 169.254.169.254:80; "
        "curl -s -m 5 -x $HTTP_PROXY http://169.254.169.254/latest/meta-data/ -o /dev/null -w '%{http_code}\\n'"
    )
    assert "open" not in result.log
    assert result.log.split()[-1] == "403"


def test_names_cannot_be_looked_up(attack: Runner) -> None:
    query = "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(1)\n"
    query += "for server in ('127.0.0.11', '127.0.0.53', '127.0.0.1', '198.51.100.1'):\n"
    query += "    try:\n        s.sendto(b'0' * 12 + b'\\x07secrets', (server, 53)); s.recv(1); print('answered')\n"
    query += "    except OSError as error: print('silent')\n"
    result = attack(f'getent hosts secret.example.com && echo answered; python3 -c "{query}"')
    assert result.log.split() == ["silent"] * 4


def test_another_container_is_out_of_reach(attack: Runner) -> None:
    client = docker.from_env()
    image = attack.sandbox.images.environment()  # type: ignore[attr-defined]
    other = client.containers.create(image, entrypoint=["python3", "-m", "http.server", "8000"], name=_unique("other"))
    try:
        other.start()
        other.reload()
        address = other.attrs["NetworkSettings"]["IPAddress"]
        _wait_for(address)
        result = attack(
            f"python3 -c '{REACH}' {address}:8000 {other.name}:8000; "
            f"curl -s -o /dev/null -w '%{{http_code}}\\n' -x $HTTP_PROXY http://{address}:8000/"
        )
    finally:
        other.remove(force=True)
    assert "open" not in result.log
    assert result.log.split()[-1] == "403"


def _unique(name: str) -> str:
    return f"mlebench-test-{name}-{uuid.uuid4().hex[:8]}"


def _wait_for(address: str) -> None:
    for _ in range(100):
        with closing(socket.socket()) as probe:
            if probe.connect_ex((address, 8000)) == 0:
                return
        time.sleep(0.05)
    raise AssertionError("the other container does not listen")


# --- the submission


@pytest.mark.parametrize(
    "make",
    [
        "ln -s /etc/passwd $F",
        "ln -s /home/data/sample_submission.csv $F",
        "ln -s /proc/self/environ $F",
        "mkfifo $F",
        "mkdir $F",
        "mknod $F b 8 0 || mknod $F c 1 5 || true",
        "python3 -c 'import os, socket; socket.socket(socket.AF_UNIX).bind(os.environ[\"F\"])'",
        "ln /home/data/sample_submission.csv $F || true",
    ],
)
def test_a_submission_that_is_no_file_is_none(attack: Runner, make: str) -> None:
    result = attack(f'export F="$SUBMISSION_DIR/submission.csv"; {make}; echo done')
    assert "done" in result.log
    path = result.run_dir / "submission/submission.csv"
    assert not path.is_symlink()
    assert not path.exists() or path.is_dir()


def test_a_hard_link_of_ones_own_is_at_most_a_copy(attack: Runner) -> None:
    result = attack(
        f"{SUBMIT}; ln $SUBMISSION_DIR/submission.csv $SUBMISSION_DIR/again.csv; ln -f /etc/passwd $CODE_DIR/p"
    )
    for path in filter(Path.is_file, result.run_dir.rglob("*")):
        assert path.stat().st_nlink == 1
    assert not (result.run_dir / "code/p").exists()


def test_five_gigabytes_are_not_collected_and_what_is_small_is(attack: Runner) -> None:
    free = _free_bytes(attack.folder)
    started = time.monotonic()
    result = attack(
        "truncate -s 5G $SUBMISSION_DIR/submission.csv; truncate -s 8T $CODE_DIR/a; echo x > $CODE_DIR/b; "
        "echo kept > $LOGS_DIR/note",
        collect_bytes=100 * MB,
    )
    assert result.submission is None
    assert (result.run_dir / "logs/note").exists()
    assert "submission.csv" in " ".join(result.execution.sandbox["left_out"])
    assert free - _free_bytes(attack.folder) < 500 * MB
    assert time.monotonic() - started < 60


def _free_bytes(folder: Path) -> int:
    import shutil

    return shutil.disk_usage(folder).free


def test_a_submission_behind_something_huge_is_still_found(attack: Runner) -> None:
    result = attack(f"{SUBMIT}; truncate -s 8T $SUBMISSION_DIR/a", collect_bytes=100 * MB)
    assert result.submission == SAMPLE


# --- archive tricks


def _archive(*members: tuple[str, bytes, dict[str, object]]) -> Iterator[bytes]:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, content, attributes in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            for key, value in attributes.items():
                setattr(info, key, value)
            tar.addfile(info, io.BytesIO(content))
    content = buffer.getvalue()
    return (content[at : at + 1000] for at in range(0, len(content), 1000))


TRICKS = {
    "dots": [("logs/../../evil", b"x", {})],
    "leading dots": [("../evil", b"x", {})],
    "absolute": [("/tmp/evil", b"x", {})],
    "absolute below": [("logs//tmp/evil", b"x", {})],
    "through a link": [
        ("logs/door", b"", {"type": tarfile.SYMTYPE, "linkname": "/tmp"}),
        ("logs/door/evil", b"x", {}),
    ],
    "hard link": [("logs/hard", b"", {"type": tarfile.LNKTYPE, "linkname": "/etc/passwd"})],
    "device": [("logs/disk", b"", {"type": tarfile.BLKTYPE, "devmajor": 8, "devminor": 0})],
    "character device": [("logs/zero", b"", {"type": tarfile.CHRTYPE, "devmajor": 1, "devminor": 5})],
    "pipe": [("logs/pipe", b"", {"type": tarfile.FIFOTYPE})],
    "not a folder": [("logs", b"content", {})],
    "set-user-id": [("logs/root", b"x", {"mode": 0o6777})],
    "file over a file": [("logs/one", b"1", {}), ("logs/one", b"2", {})],
    "file under a file": [("logs/one", b"1", {}), ("logs/one/two", b"2", {})],
    "deep": [("logs/" + "d/" * 2000 + "x", b"x", {})],
    "zero byte": [("logs/a\0b", b"x", {})],
}


@pytest.mark.parametrize("trick", TRICKS)
def test_an_archive_writes_nothing_but_plain_files_below_its_target(trick: str, tmp_path: Path) -> None:
    target = tmp_path / "run/logs"
    collector = Collector(MB, 100)
    collect_archive(_archive(("logs", b"", {"type": tarfile.DIRTYPE}), *TRICKS[trick]), target, collector)
    for path in tmp_path.rglob("*"):
        assert path in (target, target.parent) or path.is_relative_to(target)
        assert not path.is_symlink()
        assert path.is_dir() or (path.is_file() and path.stat().st_nlink == 1 and path.stat().st_mode & 0o7000 == 0)
    assert collector.left_out or trick in ("set-user-id", "zero byte")
    assert not Path("/tmp/evil").exists()


def test_a_damaged_archive_is_told(tmp_path: Path) -> None:
    collector = Collector(MB, 100)
    collect_archive(iter([b"\x00garbage" * 1000]), tmp_path / "logs", collector)
    assert "damaged" in collector.left_out[0]


def test_ten_thousand_files_do_not_hold_up_the_harness(attack: Runner) -> None:
    result = attack(
        f'{SUBMIT}; python3 -c \'import os\nos.chdir(os.environ["LOGS_DIR"])\n'
        'for i in range(10000): os.symlink("x", str(i)) if i % 2 else open(str(i), "w").close()\'',
        collect_files=1000,
    )
    assert result.submission == SAMPLE
    assert len(list((result.run_dir / "logs").iterdir())) <= 1000
    assert len(result.execution.sandbox["left_out"]) < 1000


def test_folders_of_any_depth_do_not_break_the_collection(attack: Runner) -> None:
    result = attack(
        f'{SUBMIT}; cd $CODE_DIR; python3 -c \'import os\nfor i in range(2100): os.mkdir("d"); os.chdir("d")\'; '
        "echo kept > $LOGS_DIR/note"
    )
    assert result.submission == SAMPLE
    assert (result.run_dir / "logs/note").exists()


# --- resources


def test_a_fork_bomb_hurts_only_itself(attack: Runner) -> None:
    started = time.monotonic()
    result = attack(f"{SUBMIT}; bomb() {{ bomb | bomb & }}; bomb; sleep 600", time_limit=5, processes=128)
    assert result.execution.ending == Ending.TIMED_OUT
    assert result.submission == SAMPLE
    assert time.monotonic() - started < 60


def test_a_memory_bomb_ends_its_run_and_no_other(attack: Runner) -> None:
    attacker = """
import os
while True:
    try:
        child = os.fork() == 0
    except OSError:  # no more processes: those that there are go on
        continue
    x = []
    while child: x.append(b'x' * (1 << 22))
"""
    result = attack(
        f'{SUBMIT}; echo -1000 > /proc/self/oom_score_adj; exec python3 -c "{attacker}"',
        memory=200 * MB,
        time_limit=15,
        processes=64,
    )
    assert result.execution.ending in (Ending.OUT_OF_MEMORY, Ending.TIMED_OUT)
    assert "killed for memory" in result.execution.detail
    assert result.submission == SAMPLE


def test_shared_memory_counts_as_memory(attack: Runner) -> None:
    result = attack(f"{SUBMIT}; head -c 900M /dev/zero > /dev/shm/x; exit 1", memory=200 * MB)
    assert result.execution.ending == Ending.OUT_OF_MEMORY
    assert result.submission == SAMPLE


def test_an_agent_that_survives_the_end_of_a_child_for_memory_is_finished_and_the_record_tells(attack: Runner) -> None:
    result = attack(f"python3 -c 'x = b\"x\" * (1 << 30)'; {SUBMIT}", memory=200 * MB)
    assert result.execution.ending == Ending.FINISHED
    assert "killed for memory" in result.execution.detail


def test_a_disk_is_not_filled_with_many_files(attack: Runner) -> None:
    result = attack(
        f"{SUBMIT}; for i in $(seq 10000); do head -c 8M /dev/zero > /home/fill-$i; done",
        disk=64 * MB,
        time_limit=120,
    )
    assert result.execution.ending == Ending.CRASHED
    assert "disk full" in result.execution.detail
    assert result.submission == SAMPLE


def test_a_flood_of_output_fills_neither_disk_nor_memory(attack: Runner) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result = attack(f"{SUBMIT}; exec yes flood", time_limit=8, log_bytes=2 * MB)
    assert result.execution.ending == Ending.TIMED_OUT
    assert (result.run_dir / "run.log").stat().st_size < 2.2 * MB
    assert sorted(path.name for path in result.run_dir.iterdir()) == ["code", "logs", "run.log", "submission"]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300 * 1024


def test_limits_cannot_be_raised_from_within(attack: Runner) -> None:
    result = attack(
        "for file in memory/memory.limit_in_bytes memory.max pids/pids.max pids.max cpu/cpu.cfs_quota_us cpu.max; do "
        "echo max > /sys/fs/cgroup/$file && echo raised; done 2>/dev/null; "
        "mkdir /sys/fs/cgroup/memory/x 2>/dev/null && echo made; "
        "for file in sysrq-trigger sys/kernel/core_pattern sys/vm/drop_caches; do echo b > /proc/$file && echo wrote; "
        "done 2>/dev/null; ulimit -c unlimited 2>/dev/null && echo cores; echo tried",
        disk=64 * MB,
    )
    assert result.log.split() == ["tried"]


# --- the checker


def test_the_checker_outlives_every_signal(attack: Runner) -> None:
    result = attack(
        "for signal in TERM KILL STOP INT HUP; do kill -$signal 1; done 2>/dev/null; "
        "(setsid bash -c 'kill -KILL -1') ; sleep 0.5; echo unreachable"
    )
    assert "unreachable" not in result.log  # it ended itself
    again = attack(
        "for pid in /proc/[0-9]*; do [ $pid = /proc/$$ ] || kill -9 ${pid#/proc/}; done 2>/dev/null; "
        "curl -s $VALIDATION_URL/health"
    )
    assert '"ok"' in again.log


def test_nobody_else_can_be_the_checker(attack: Runner) -> None:
    fake = (
        "import socket\nfor host in ('127.0.0.1', '0.0.0.0', '::', '::1'):\n"
        "    for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):\n"
        "        s = socket.socket(socket.AF_INET6 if ':' in host else socket.AF_INET)\n"
        "        s.setsockopt(socket.SOL_SOCKET, option, 1)\n"
        "        try:\n            s.bind((host, 5000)); s.listen(); print('faked', host)\n"
        "        except OSError: pass\n"
    )
    result = attack(f'python3 -c "{fake}"; echo nonsense > x.csv; /home/validate_submission.sh x.csv')
    assert "wrong columns" in result.log
    assert "faked 127.0.0.1" not in result.log
    assert result.verdicts == ["The submission is not valid: wrong columns."]


def test_a_thousand_open_connections_do_not_hold_up_the_harness(attack: Runner) -> None:
    threads = threading.active_count()
    hold = (
        "import socket, time\nheld = []\nfor i in range(1000):\n"
        "    s = socket.socket(); s.setblocking(False); s.connect_ex(('127.0.0.1', 5000)); held.append(s)\n"
        "print('holding', flush=True); time.sleep(600)\n"
    )
    most: list[int] = []
    done = threading.Event()

    def count() -> None:
        while not done.wait(0.2):
            most.append(threading.active_count())

    threading.Thread(target=count, daemon=True).start()
    result = attack(f'{SUBMIT}; python3 -c "{hold}"', time_limit=3)
    done.set()
    assert result.execution.ending == Ending.TIMED_OUT
    assert "holding" in result.log
    assert max(most) - threads < 100


def test_a_flood_of_validations_is_slowed_down(attack: Runner) -> None:
    result = attack(
        f"{SUBMIT}; cd $SUBMISSION_DIR; "
        "for i in $(seq 60); do curl -s -F file=@submission.csv $VALIDATION_URL/validate; done"
    )
    assert len(result.verdicts) <= 31
    assert "Too many requests" in result.log


# --- privileges


def test_the_agent_gains_no_rights(attack: Runner) -> None:
    result = attack(
        "id -u; grep -E 'CapEff|CapPrm|CapAmb' /proc/self/status | tr -d '0\\t\\n'; echo; "
        "{ su -c id; sudo id; mount -o remount,rw /home/data; umount /home/data; mount -t tmpfs x /mnt; "
        "unshare -Ur true && echo namespace; chroot / true && echo chroot; "
        "cp /bin/bash /tmp/bash && chmod u+s /tmp/bash; setpriv --reuid 0 true && echo root; "
        "cat /etc/shadow && echo shadow; echo x >> /etc/passwd && echo passwd; "
        "head -c 1 /dev/mem && echo memory; mknod /tmp/disk b 254 0 && echo device; "
        "cat /proc/1/environ && echo environ; head -c 1 /proc/1/mem && echo trace; "
        "chown root /tmp/bash && echo chown; date -s 2000-01-01 > /tmp/x && echo clock; "
        "ls /var/run/docker.sock /run/docker.sock /run/containerd && echo engine; } 2>/dev/null"
    )
    uid, capabilities, *gained = result.log.split()
    assert uid != "0"
    assert capabilities == "CapPrm:CapEff:CapAmb:"
    assert not gained


def test_public_data_cannot_be_touched(attack: Runner) -> None:
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in attack.public.rglob("*") if path.is_file()}
    attack(
        "cd /home/data; chmod -R 777 . ; chown -R nonroot .; touch *; rm -rf *; echo x > description.md; "
        "mv /home/data /home/old; ln -sf /etc/passwd description.md; mount -o remount,rw /home/data; "
        'python3 -c \'open("/home/data/description.md", "r+b").write(b"x")\''
    )
    after = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in attack.public.rglob("*") if path.is_file()}
    assert after == before


# --- time, and what comes after


def test_a_daemon_does_not_outlive_the_time_limit(attack: Runner) -> None:
    name = f"daemon-{uuid.uuid4().hex}"
    result = attack(
        f"{SUBMIT}; (setsid nohup bash -c \"trap '' TERM HUP INT; while true; do exec -a {name} sleep 600; done\" "
        "> /dev/null 2>&1 &); trap '' TERM; while true; do sleep 1; done",
        time_limit=2,
    )
    assert result.execution.ending == Ending.TIMED_OUT
    assert result.submission == SAMPLE
    assert not _runs_on_host(name)
    assert not docker.from_env().containers.list(all=True, filters={"name": result.execution.sandbox["container"]})


def _runs_on_host(name: str) -> bool:
    import psutil

    return any(name in " ".join(process.info["cmdline"] or []) for process in psutil.process_iter(["cmdline"]))


def test_an_agent_that_stops_all_its_processes_is_still_ended_on_time(attack: Runner) -> None:
    started = time.monotonic()
    result = attack(f"{SUBMIT}; sleep 600 & kill -STOP -1; kill -STOP $$", time_limit=2)
    assert result.execution.ending == Ending.TIMED_OUT
    assert time.monotonic() - started < 30


def test_other_agents_secrets_are_not_to_be_found(attack: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    secret, own = f"sk-other-{uuid.uuid4().hex}", f"sk-own-{uuid.uuid4().hex}"
    monkeypatch.setenv("OTHER_API_KEY", secret)
    victim = attack.task("sleep 5", environment={"KEY": secret}, secrets=frozenset([secret]))
    thread = threading.Thread(target=attack.sandbox.run, args=(victim,))
    thread.start()
    try:
        time.sleep(1.5)
        settings = [str(container.attrs) for container in docker.from_env().containers.list(all=True)]
        result = attack(
            "env; cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr '\\0' '\\n'; "
            "grep -raIhE 'sk-other-[0-9a-f]+' /home /tmp /run /opt /var /etc 2>/dev/null",
            environment={"KEY": own},
        )
    finally:
        thread.join()
    assert own in result.log
    assert secret not in result.log
    assert not any(secret in text for text in settings)  # nor does the engine store it


def test_an_ending_cannot_be_faked(attack: Runner) -> None:
    result = attack('echo \'{"exit_code": 0, "oom_kills": 0}\'; echo \'{"exit_code": 0}\' > /proc/1/fd/3; exit 137')
    assert (result.execution.ending, result.execution.exit_code) == (Ending.CRASHED, 137)
