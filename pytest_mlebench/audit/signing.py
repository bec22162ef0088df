"""SSH signatures of a bundle's index, made and checked by OpenSSH's ``ssh-keygen -Y``."""

from __future__ import annotations

import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from pytest_mlebench.errors import UsageError

NAMESPACE = "mlebench-bundle"
MAX_SIGNATURE_BYTES = 1 << 16
_SECONDS = 60


@dataclass(frozen=True)
class Signature:
    """What is known of a signature: whether it is good, who made it (None: nobody says whose key it is), and why."""

    is_good: bool
    signer: str | None
    text: str


def sign(content: bytes, key: Path) -> bytes:
    """The signature of content with a private key, or a public one whose private key an agent holds.

    Raises UsageError. A passphrase is asked for on the terminal.
    """
    if not key.is_file():
        raise UsageError(f"--sign: there is no key {key}")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "index"
        file.write_bytes(content)
        done = _ssh_keygen("-Y", "sign", "-f", str(key), "-n", NAMESPACE, str(file), asks=True)
        signature = file.with_name("index.sig")
        if done.returncode or not signature.is_file():
            raise UsageError(f"--sign: {key} cannot sign: {_line(done.stderr)}")
        return signature.read_bytes()


def check(content: bytes, signature: bytes, allowed_signers: Path | None) -> Signature:
    """Check a signature, against a file of allowed signers if there is one (see ssh-keygen(1)). Raises UsageError."""
    if allowed_signers is not None and not allowed_signers.is_file():
        raise UsageError(f"--allowed-signers: there is no file {allowed_signers}")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "index.sig"
        file.write_bytes(signature)
        common = ("-n", NAMESPACE, "-s", str(file))
        done = _ssh_keygen("-Y", "check-novalidate", *common, content=content)
        if done.returncode:
            return Signature(False, None, f"the signature is not of this index: {_line(done.stderr or done.stdout)}")
        key = re.search(r"SHA256:\S+", done.stdout.decode("utf-8", "replace"))
        fingerprint = key[0] if key else "an unknown key"
        if allowed_signers is None:
            return Signature(True, None, f"good, by the key {fingerprint}; --allowed-signers says whose that is")
        found = _ssh_keygen("-Y", "find-principals", "-s", str(file), "-f", str(allowed_signers))
        for signer in found.stdout.decode("utf-8", "replace").splitlines():
            arguments = ("-Y", "verify", "-f", str(allowed_signers), "-I", signer, *common)
            if not _ssh_keygen(*arguments, content=content).returncode:
                return Signature(True, signer, f"good, by {signer} ({fingerprint})")
        return Signature(False, None, f"the key {fingerprint} is not among the allowed signers of {allowed_signers}")


def _ssh_keygen(
    *arguments: str, content: bytes | None = None, asks: bool = False
) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(
            ["ssh-keygen", *arguments],
            input=content,
            stdin=None if content is not None or asks else subprocess.DEVNULL,
            capture_output=True,
            timeout=None if asks else _SECONDS,
            check=False,
        )
    except FileNotFoundError as error:
        raise UsageError("ssh-keygen is not installed: signatures need OpenSSH 8.2 or later") from error
    except subprocess.TimeoutExpired as error:
        raise UsageError(f"ssh-keygen did not end within {_SECONDS} s") from error


def _line(text: bytes) -> str:
    lines = text.decode("utf-8", "replace").strip().splitlines()
    return lines[-1][:300] if lines else "ssh-keygen does not say why"
