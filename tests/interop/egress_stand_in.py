"""Stands in for gost, the proxy of Harbor's egress sidecar (only on Docker Hub): ``gost -C CONFIG``.

The sidecar's firewall redirects connections to it. It forwards a connection to its original destination if that
address or the host of its HTTP request is allowed. The rest of the sidecar, with the firewall, is Harbor's.
"""

from __future__ import annotations

import re
import socket
import struct
import threading
from contextlib import suppress
from pathlib import Path

ALLOWED = Path("/opt/egress-sidecar/allowlist.txt")
PORT, MARK = 12345, 114514
_ORIGINAL_DESTINATION, _MARK = 80, 36
_HOST = re.compile(rb"\r\nhost:[ \t]*([A-Za-z0-9.-]+)", re.IGNORECASE)


def serve(client: socket.socket) -> None:
    with client, suppress(OSError):
        client.settimeout(20)
        raw = client.getsockopt(socket.SOL_IP, _ORIGINAL_DESTINATION, 16)
        port, packed = struct.unpack("!2xH4s8x", raw)
        address, head = socket.inet_ntoa(packed), client.recv(1 << 16)
        named = _HOST.search(head)
        if not {address, named.group(1).decode() if named else ""} & set(ALLOWED.read_text().split()):
            return
        with socket.socket() as server:
            server.setsockopt(socket.SOL_SOCKET, _MARK, MARK)
            server.settimeout(20)
            server.connect((address, port))
            server.sendall(head)
            while block := server.recv(1 << 16):
                client.sendall(block)


if __name__ == "__main__":
    with socket.create_server(("", PORT)) as listener:
        while True:
            threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
