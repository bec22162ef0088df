"""Runs AIDE step by step, and puts after each step what is best so far where it is collected.

AIDE's own command line leaves in the workspace what its last program wrote, whether it was good or not, and shows a
screen that a log cannot hold; so this drives its parts (agent, interpreter, journal) itself. Arguments: `key=value` of
AIDE's configuration.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
import traceback
from pathlib import Path

from aide.agent import Agent
from aide.interpreter import ExecutionResult, Interpreter
from aide.journal import Journal, Node
from aide.utils.config import Config, load_cfg, load_task_desc, prep_agent_workspace, save_run
from omegaconf import OmegaConf

SUBMISSION = Path(os.environ["SUBMISSION_DIR"]) / "submission.csv"
SOLUTION = Path(os.environ["CODE_DIR"]) / "solution.py"
LOGS = Path(os.environ["LOGS_DIR"])
FAILURES = 5
"""So many steps in a row may fail in AIDE itself, for example on a reply that it does not understand."""
LAST_SECONDS = 30
"""Less time than this is too little for another step."""


def main() -> None:
    end = time.monotonic() + float(os.environ.get("TIME_LIMIT_SECS", 24 * 3600))
    config = load_cfg()
    config.log_dir = LOGS
    prep_agent_workspace(config)
    journal = Journal()
    agent = Agent(task_desc=load_task_desc(config), cfg=config, journal=journal)
    interpreter = Interpreter(config.workspace_dir, **OmegaConf.to_container(config.exec))
    written = Path(config.workspace_dir) / "working/submission.csv"

    def execute(code: str, reset_session: bool = True) -> ExecutionResult:
        written.unlink(missing_ok=True)  # what is there afterwards is this program's
        interpreter.timeout = max(1, min(config.exec.timeout, int(end - time.monotonic())))
        try:
            return interpreter.run(code, reset_session)
        except RuntimeError as error:  # the program took its process with it, or used up its memory
            return ExecutionResult([f"{error} (killed, perhaps for its use of memory)"], 0.0, "RuntimeError", {}, [])

    failures = 0
    while len(journal) < config.agent.steps and time.monotonic() < end - LAST_SECONDS:
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
        except Exception:  # AIDE cannot compare metrics whose direction the model did not say alike
            traceback.print_exc()
    interpreter.cleanup_session()


def keep(config: Config, journal: Journal, node: Node, written: Path) -> None:
    """Keep the journal, and submission and program of the newest node if it is the best, or the only one."""
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
