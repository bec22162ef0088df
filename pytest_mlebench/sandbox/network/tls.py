"""Which host a TLS connection asks for: the server name in its ClientHello (RFC 8446, RFC 6066)."""

from __future__ import annotations

import asyncio
import ipaddress
import struct

_HANDSHAKE, _CLIENT_HELLO, _SERVER_NAME = 22, 1, 0
_ENCRYPTED_CLIENT_HELLO = (0xFE0D, 0xFFCE)
"""RFC 9849, and the extension of its early drafts (ESNI)."""
_MAX_HELLO = 1 << 16


class HelloError(Exception):
    """A connection does not begin with TLS for the host that it was allowed to reach."""


async def server_name(reader: asyncio.StreamReader, host: str) -> bytes:
    """Read a ClientHello that asks for ``host`` and return its bytes, to be passed on; raises HelloError.

    For an address there is no server name to ask for.
    """
    try:
        raw, message = await _client_hello(reader)
        names = _names(message)
    except (asyncio.IncompleteReadError, struct.error, IndexError, UnicodeDecodeError) as error:
        raise HelloError(f"what was sent to {host} is not TLS") from error
    wanted = [] if _is_address(host) else [host.lower().rstrip(".")]
    if names != wanted:
        raise HelloError(f"the connection to {host} asks for {', '.join(names)[:255] or 'no host'} instead")
    return raw


async def _client_hello(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    raw = message = b""
    while len(message) < 4 or len(message) < 4 + int.from_bytes(message[1:4]):
        header = await reader.readexactly(5)
        kind, _, length = struct.unpack("!BHH", header)
        if kind != _HANDSHAKE or len(raw) + length > _MAX_HELLO:
            raise HelloError("what was sent is not a TLS handshake")
        record = await reader.readexactly(length)
        raw += header + record
        message += record
    if message[0] != _CLIENT_HELLO:
        raise HelloError("what was sent is not a TLS handshake")
    return raw, message


def _names(message: bytes) -> list[str]:
    """The server names in a ClientHello."""
    at = 4 + 2 + 32  # header, version, random
    at += 1 + message[at]  # session id
    at += 2 + struct.unpack_from("!H", message, at)[0]  # cipher suites
    at += 1 + message[at]  # compression methods
    end = at + 2 + struct.unpack_from("!H", message, at)[0]
    at += 2
    names = []
    while at + 4 <= end:
        kind, length = struct.unpack_from("!HH", message, at)
        at += 4
        if kind in _ENCRYPTED_CLIENT_HELLO:  # whom it really asks for cannot be seen
            raise HelloError("the connection encrypts the name of the host that it asks for (ECH), which is refused")
        if kind == _SERVER_NAME:
            position, stop = at + 2, at + length
            while position < stop:
                (size,) = struct.unpack_from("!H", message, position + 1)
                names.append(message[position + 3 : position + 3 + size].decode("ascii").lower())
                position += 3 + size
        at += length
    return names


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
