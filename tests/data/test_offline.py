"""`mlebench prepare` on a machine without a network: its messages and waiting times."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.full

OFFLINE = ["unshare", "--user", "--map-root-user", "--net"]
ATTEMPT = re.compile(r"attempt (\d+) of (\d+)\)")


@pytest.fixture(scope="module")
def offline() -> None:
    """A prefix that runs a command in a Linux namespace without a network."""
    tried = subprocess.run([*OFFLINE, "true"], capture_output=True, text=True, check=False)
    if tried.returncode:
        pytest.skip(f"no namespaces for this user: {tried.stderr.strip()}")


def test_an_unresolvable_host_is_named_and_attempts_are_counted(
    offline: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "KAGGLE_API_ENVIRONMENT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("KAGGLE_API_TOKEN", "KGAT_" + "0" * 32)
    command = ["prepare", "-c", "spaceship-titanic", "--data-dir", str(tmp_path / "data"), "--skip-disk-check"]
    log = tmp_path / "log"
    with (
        log.open("w") as errors,
        subprocess.Popen([*OFFLINE, sys.executable, "-m", "pytest_mlebench.cli", *command], stderr=errors) as process,
    ):
        try:
            deadline = time.monotonic() + 60
            while len(ATTEMPT.findall(log.read_text())) < 2:
                assert process.poll() is None and time.monotonic() < deadline, log.read_text()
                time.sleep(0.1)
            process.send_signal(signal.SIGINT)
            status = process.wait(30)
        finally:
            process.kill()
    said = log.read_text()
    assert status == 130 and "Traceback" not in said, said
    assert "the host name api.kaggle.com cannot be resolved: this machine is offline, or must use a proxy" in said
    (second, most), (third, _) = ATTEMPT.findall(said)[:2]
    assert (second, third) == ("2", "3") and int(most) < 10, "the number of attempts is limited"
