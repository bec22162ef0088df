"""Runs MLAgentBench's research agent on the task from standard input, with a current model.

Its own client for models needs keys in files, and several GB of packages. ``complete_text`` below replaces it.
"""

import os
import subprocess
import sys
import time
from argparse import Namespace
from pathlib import Path
from types import ModuleType
from typing import Any

import openai

sys.path.insert(0, "/opt/mlab")
DEADLINE = float(os.environ["DEADLINE"])
ENDLESS = os.environ.get("UNTIL") == "limit"
STEPS = 10**6 if ENDLESS else int(os.environ["STEPS"])
TASK = "competition"
client = openai.OpenAI(max_retries=int(os.environ.get("MODEL_ATTEMPTS", "15")) - 1, timeout=1800)


def complete_text(prompt: str, log_file: str | None = None, model: str = "", **_: object) -> str:
    """Return the model's answer. Models also invent observations, so the answer is cut off before the first one."""
    from MLAgentBench.schema import TooLongPromptError

    try:
        messages = [{"role": "user", "content": prompt}]
        answer = client.chat.completions.create(model=os.environ["MODEL"], messages=messages)
    except openai.BadRequestError as error:
        print(error, file=sys.stderr)
        raise TooLongPromptError from error
    except openai.OpenAIError as error:
        sys.exit(f"the model cannot be asked: {error}")
    text = (answer.choices[0].message.content or "").split("\nObservation:")[0]
    print(f"\n{text}", flush=True)
    return text


def prompt(what: str) -> str:
    script = Path(os.environ["AGENT_DIR"]).parent / "prompt.sh"
    return subprocess.run(["bash", script, what], check=True, capture_output=True, text=True).stdout


def replace_modules() -> None:
    models, markers = ModuleType("MLAgentBench.LLM"), ModuleType("anthropic")
    vars(models).update(
        complete_text=complete_text, complete_text_fast=complete_text, complete_text_claude=complete_text
    )
    vars(markers).update(HUMAN_PROMPT="\n\nHuman:", AI_PROMPT="\n\nAssistant:")
    sys.modules.update({models.__name__: models, markers.__name__: markers})


def main() -> None:
    replace_modules()
    from MLAgentBench import environment
    from MLAgentBench.agents.agent_research import ResearchAgent

    class Workplace(environment.Environment):
        answers = 0  # consecutive final answers

        def _initialize_task_env(self) -> None:
            (Path(self.work_dir) / "backup").mkdir(parents=True)
            (Path(self.work_dir) / "data").symlink_to(os.environ["DATA_DIR"])

        def execute(self, action: Any) -> Any:
            self.answers = self.answers + 1 if action.name == "Final Answer" else 0
            if ENDLESS and 0 < self.answers < 3 and time.time() < DEADLINE - 60:
                return prompt("again")
            return super().execute(action)

    notes = "Work in the current folder, by relative paths. The data is in ./data as well."
    environment.get_task_info = lambda task: (task, f"{sys.stdin.read()}\n{notes}")
    environment.signal.alarm = lambda seconds: None  # the harness enforces the time limit
    options = Namespace(
        task=TASK,
        log_dir=os.environ["LOGS_DIR"] + "/mlab",
        work_dir=os.environ["CODE_DIR"],
        max_steps=STEPS,
        agent_max_steps=STEPS,
        max_time=DEADLINE - time.time(),
        device=os.environ.get("CUDA_VISIBLE_DEVICES", "0"),
        python="python",
        interactive=False,
        resume=None,
        llm_name="",
        edit_script_llm_name="",
        edit_script_llm_max_tokens=0,
        actions_remove_from_prompt=["Retrieval from Research Log", "Append Summary to Research Log", "Reflection"],
        actions_add_to_prompt=[],
        retrieval=False,
        valid_format_entires=None,
        max_steps_in_context=3,
        max_observation_steps_in_context=3,
        max_retries=5,
    )
    with Workplace(options) as workplace:
        ending = ResearchAgent(options, workplace).run(workplace)
    print(ending)
    if ending.startswith("No valid response"):
        sys.exit(1)


if __name__ == "__main__":
    main()
