"""Runs AIDE step by step, and saves the best submission and program so far after each step.

AIDE's own command line keeps only the output of its last program, whether it was good or not, and prints a live screen
that is unusable in a log. This script therefore runs AIDE's agent, interpreter and journal directly. Arguments:
`key=value` pairs of AIDE's configuration.
"""

from __future__ import annotations

import os
import random
import shutil
import sys
import time
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import openai
from aide import backend
from aide.agent import Agent
from aide.interpreter import ExecutionResult, Interpreter
from aide.journal import Journal, Node
from aide.utils.config import Config, load_cfg, load_task_desc, prep_agent_workspace, save_run
from omegaconf import OmegaConf

SUBMISSION = Path(os.environ["SUBMISSION_DIR"]) / "submission.csv"
SOLUTION = Path(os.environ["CODE_DIR"]) / "solution.py"
LOGS = Path(os.environ["LOGS_DIR"])
FAILURES = 5
"""The run ends after this many steps in a row fail in AIDE itself, for example on a reply that it cannot parse."""
LAST_SECONDS = 30
"""Minimum remaining time for another step."""
ATTEMPTS = int(os.environ.get("MODEL_ATTEMPTS", "15"))
"""Attempts at a call if the provider is overloaded or does not answer; AIDE itself would retry forever."""

COMPATIBLE = {
    "gemini": ("GEMINI_API_KEY", "GEMINI_OPENAI_BASE_URL", "https://generativelanguage.googleapis.com/v1beta/openai"),
    "openrouter": ("OPENROUTER_API_KEY", "OPENROUTER_BASE_URL", "https://openrouter.ai/api/v1"),
}
"""Providers with OpenAI's chat completions API: the variables with their key and base URL, and the default base URL."""


def main() -> None:
    use_base_urls()
    random.seed(int(os.environ.get("SEED", "0")))  # AIDE makes random choices; a replay must repeat them
    end = time.monotonic() + float(os.environ.get("TIME_LIMIT_SECS", 24 * 3600))
    config = load_cfg()
    config.log_dir = LOGS
    prep_agent_workspace(config)
    journal = Journal()
    agent = Agent(task_desc=load_task_desc(config), cfg=config, journal=journal)
    interpreter = Interpreter(config.workspace_dir, **OmegaConf.to_container(config.exec))
    written = Path(config.workspace_dir) / "working/submission.csv"

    def execute(code: str, reset_session: bool = True) -> ExecutionResult:
        written.unlink(missing_ok=True)  # a file that exists afterwards is from this program
        interpreter.timeout = max(1, min(config.exec.timeout, int(end - time.monotonic())))
        try:
            return interpreter.run(code, reset_session)
        except RuntimeError as error:  # the program crashed its process, or ran out of memory
            return ExecutionResult([f"{error} (killed, perhaps for its use of memory)"], 0.0, "RuntimeError", {}, [])

    try:
        solve(config, agent, execute, written, end)
    finally:  # otherwise Python would wait for a program that is still running
        interpreter.cleanup_session()


def solve(config: Config, agent: Agent, execute: Callable[..., ExecutionResult], written: Path, end: float) -> None:
    """Run steps until there are enough, too little time remains, or AIDE fails repeatedly."""
    journal, failures = agent.journal, 0
    endless = os.environ.get("UNTIL") == "limit"  # continue after AIDE's configured number of steps
    while (endless or len(journal) < config.agent.steps) and time.monotonic() < end - LAST_SECONDS:
        try:
            agent.step(exec_callback=execute)
            failures = 0
        except Exception:
            failures += 1
            traceback.print_exc()
            if failures == FAILURES:
                sys.exit(f"AIDE failed {failures} times in a row")
            continue
        try:
            keep(config, journal, journal[-1], written)
        except Exception:  # AIDE cannot compare metrics if the model reported different directions
            traceback.print_exc()


def use_base_urls() -> None:
    """Use the base URLs from the environment; all of AIDE's backends except Anthropic's have hard-coded URLs.

    OpenRouter's backend does not support function calls, which reviews need, so Gemini's backend is used for both.
    """
    for module in (backend.backend_openai, backend.backend_anthropic, backend.backend_gemini):
        module.backoff_create = create
    backend.backend_openai.OPENAI_BASE_URL = os.environ.get("OPENAI_BASE_URL", backend.backend_openai.OPENAI_BASE_URL)
    backend.backend_gemini._setup_gemini_client = lambda: None
    for provider, (secret, variable, usual) in COMPATIBLE.items():
        if key := os.environ.get(secret):
            client = openai.OpenAI(api_key=key, base_url=os.environ.get(variable, usual), max_retries=0)
            backend.provider_to_query_func[provider] = partial(ask, client)
    if "OPENROUTER_API_KEY" in os.environ:  # otherwise AIDE would send all other models to OPENAI_BASE_URL
        others = backend.determine_provider
        backend.determine_provider = lambda model: "openrouter" if "/" in model else others(model)


def create(call: Callable[..., Any], retried: tuple[type[Exception], ...], *arguments: Any, **question: Any) -> Any:
    """Return the provider's answer; ends the run if all attempts fail."""
    for attempt in range(ATTEMPTS):
        try:
            return call(*arguments, **question)
        except retried as error:
            problem = error
            print(f"the model does not answer: {error}", flush=True)
            time.sleep(min(2**attempt, 60))
    sys.exit(f"the model cannot be asked: {problem}")


def ask(client: openai.OpenAI, **question: Any) -> Any:
    backend.backend_gemini._client = client
    return backend.backend_gemini.query(**question)


def keep(config: Config, journal: Journal, node: Node, written: Path) -> None:
    """Save the journal, and the newest node's submission and program if it is the best or there are none yet."""
    best = node is journal.get_best_node()
    found = written.is_file()
    print(
        f"step {len(journal)}/{config.agent.steps}:",
        "failed" if node.is_buggy else f"metric {node.metric.value:.5f}",
        "(best so far)" if best else "",
        "" if found else "(wrote no submission)",
        flush=True,
    )
    if found and (best or not SUBMISSION.exists()):
        shutil.copyfile(written, SUBMISSION)
    if best or not SOLUTION.exists():
        SOLUTION.write_text(node.code, encoding="utf-8")
    save_run(config, journal)


if __name__ == "__main__":
    main()
