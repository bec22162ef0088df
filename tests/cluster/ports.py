"""Finds unused ports on this machine."""

from __future__ import annotations

import random
import socket
from pathlib import Path


def free_ports(number: int) -> list[int]:
    """Free ports below those for outgoing connections, so that a restarted daemon can use the same port."""
    try:
        most = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except OSError:
        most = 32768
    found: list[int] = []
    candidates = iter(random.SystemRandom().sample(range(min(10240, most // 2), most), 1000))
    while len(found) < number:
        port = next(candidates)
        with socket.socket() as own:
            try:
                own.bind(("127.0.0.1", port))
            except OSError:
                continue
        found.append(port)
    return found
