"""The page on custom endpoints: its providers and prices work, and its tables list all keys."""

from __future__ import annotations

import re
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from pytest_mlebench.agents.registry import read_config
from pytest_mlebench.errors import UsageError
from pytest_mlebench.llm.accounting import GatewaySettings
from pytest_mlebench.llm.budget import BudgetLimits
from pytest_mlebench.llm.gateway import providers_of
from pytest_mlebench.llm.ledger import read_calls
from pytest_mlebench.llm.prices import Prices
from pytest_mlebench.llm.providers import load_providers
from tests.docs.pages import ROOT, fences
from tests.llm.conftest import Start
from tests.llm.talking import QUESTION, ask
from tests.llm.upstreams import KEY, Upstream

PAGE = "docs/endpoints.md"


def written(folder: Path) -> dict[str, Path]:
    """The YAML files of the page, by the name in their first line."""
    found = {}
    for fence in fences():
        if fence.page == PAGE and fence.kind == "yaml":
            name = fence.text.partition("\n")[0].removeprefix("# ")
            found[name] = folder / name
            found[name].write_text(fence.text)
    return found


@pytest.mark.parametrize("name", ["vllm", "litellm", "ollama", "azure"])
def test_each_provider_on_the_page_works_through_the_gateway(
    name: str, start: Start, upstream: Upstream, run_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = written(tmp_path)
    provider = load_providers(files["providers.yaml"])[name]
    for variable in provider.keys:
        monkeypatch.setenv(variable, KEY)
    moved = replace(provider, base_url=f"{upstream.url}/v1", url_variables=())
    prices = Prices.load(files["prices.yaml"])
    gateway = start(providers={name: moved}, prices=prices, limits=BudgetLimits(max_cost=Decimal(1)))
    answer = ask(gateway, {**QUESTION, "model": "my-model", "max_tokens": 50}, path=f"/{name}/v1/chat/completions")
    assert answer.status == 200, answer.json
    (seen,) = upstream.seen
    header = provider.key_header or "Authorization"
    sent = {key.lower(): value for key, value in seen.headers.items()}.get(header.lower(), "")
    assert sent == ("" if not provider.keys else KEY if provider.key_header else f"Bearer {KEY}")
    assert all(f"{key}={value}" in seen.query for key, value in provider.query.items())
    (call,) = read_calls(run_dir)
    assert call["cost"] > 0


def test_the_agents_on_the_page_get_the_documented_providers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_API_KEY", KEY)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/start.sh").touch()
    files = written(tmp_path / "mine")
    settings = GatewaySettings(providers=load_providers(files["providers.yaml"]))
    agents = {agent.id: agent for agent in read_config(files["config.yaml"])}
    found = {id: [provider.name for provider in providers_of(settings, agent)] for id, agent in agents.items()}
    assert found == {"mine": ["vllm"], "mine/ollama": ["ollama"]}
    assert urlsplit(settings.providers["ollama"].base_url).hostname in agents["mine/ollama"].llm_hosts


def test_the_tables_and_the_errors_list_all_keys(tmp_path: Path) -> None:
    text = (ROOT / PAGE).read_text()
    shown = [set(re.findall(r"`(\w+)`", line.split("|")[1])) for line in text.splitlines() if line.startswith("| `")]
    file = tmp_path / "own.yaml"
    for load, content in (
        (load_providers, "a: {b: 1, flavour: openai, base_url: http://x}"),
        (Prices.load, "m: {b: 1}"),
    ):
        file.write_text(content)
        with pytest.raises(UsageError) as raised:
            load(file)
        known = set(re.split(r", ", re.split(r"known: |some of ", str(raised.value))[1]))
        assert any(known <= set().union(*shown[a:b]) for a in range(len(shown)) for b in range(a + 1, len(shown) + 1))
        assert "b" in str(raised.value)
