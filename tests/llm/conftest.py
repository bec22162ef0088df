from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from pytest_mlebench.llm.accounting import GatewaySettings
from pytest_mlebench.llm.gateway import Gateway
from tests.llm.upstreams import KEY, Upstream, authority

Start = Callable[..., Gateway]


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ssl.SSLContext, Path]]:
    with authority(tmp_path_factory.mktemp("authority")) as made:
        yield made


@pytest.fixture
def upstream(certificates: tuple[ssl.SSLContext, Path], monkeypatch: pytest.MonkeyPatch) -> Iterator[Upstream]:
    """A provider of all APIs, which replaces the bundled ones by the harness's environment variables."""
    context, file = certificates
    with Upstream(tls=context) as upstream:
        monkeypatch.setenv("SSL_CERT_FILE", str(file))
        monkeypatch.setenv("OPENAI_BASE_URL", f"{upstream.url}/v1")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", upstream.url)
        monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", upstream.url)
        for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"):
            monkeypatch.setenv(name, KEY)
        for name in ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "https_proxy", "http_proxy", "all_proxy"):
            monkeypatch.delenv(name, raising=False)
        yield upstream


@pytest.fixture
def start(upstream: Upstream, tmp_path: Path) -> Iterator[Start]:
    """Starts gateways to the upstream; those still open are closed when the test ends."""
    with ExitStack() as stack:

        def start(run: str = "run", *, replay: Path | None = None, **settings: Any) -> Gateway:
            run_dir = tmp_path / "group" / run
            run_dir.mkdir(parents=True, exist_ok=True)
            made = GatewaySettings(**settings)
            providers = [provider.located() for provider in made.providers.values()]
            gateway = Gateway(made, providers, run_dir=run_dir, account_folder=run_dir.parent, replay=replay)
            return stack.enter_context(gateway)

        yield start


@pytest.fixture
def gateway(start: Start) -> Gateway:
    return start()


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    return tmp_path / "group/run"
