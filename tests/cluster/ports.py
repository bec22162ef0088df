"""Ports of this machine that nobody uses."""

from __future__ import annotations

import socket


def free_ports(number: int) -> list[int]:
    sockets = [socket.socket() for _ in range(number)]
    try:
        for own in sockets:
            own.bind(("127.0.0.1", 0))
        return [own.getsockname()[1] for own in sockets]
    finally:
        for own in sockets:
            own.close()
