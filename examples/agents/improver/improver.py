"""Asks a model for a program, runs it, shows the model its output, and keeps the best submission.

It needs only Python's standard library. The gateway records the model calls, from which the trajectory is created.
When the budget is exhausted, the gateway rejects further calls, and the last submission counts.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

AGENT, CODE, SUBMISSION = (Path(os.environ[f"{name}_DIR"]) for name in ("AGENT", "CODE", "SUBMISSION"))
DEADLINE = float(os.environ["DEADLINE"])  # seconds since the epoch
MARGIN = 60  # seconds reserved for the steps after a program
ASK = """
Answer with one complete Python program in a fenced block. It trains a model, scores it by cross-validation, and writes
its predictions of the test part to the file candidate.csv in the working directory. Its last line of output is JSON:
{"validation_score": the score, "lower_is_better": whether lower is better}
"""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("--steps", type=int, required=True)
    options = parser.parse_args()
    messages = [{"role": "user", "content": sys.stdin.read() + ASK}]
    best = None
    for step in range(1, options.steps + 1):
        if time.time() > DEADLINE - 2 * MARGIN:
            print("the time is nearly over")
            return
        answer = ask(options.model, messages)
        if answer is None:
            return
        program = CODE / f"step-{step}.py"
        blocks = re.findall(r"```(?:python)?\n(.*?)```", answer, re.DOTALL)
        program.write_text(blocks[-1] if blocks else answer)
        output = run(program)
        score, value = score_of(output)
        found = "It is no better than the best so far."
        if score is None:
            found = "The last line is not the requested JSON."
        elif best is None or value > best:
            if problem := submit(score):
                found = f"candidate.csv is not well formed: {problem}"
            else:
                best, found = value, "It is the best so far, and submitted."
        print(f"step {step}: {score}: {found}", flush=True)
        said = f"The program printed:\n{output[-5000:]}\n{found}\nImprove it." + ASK
        messages += [{"role": "assistant", "content": answer}, {"role": "user", "content": said}]
        messages = messages[:1] + messages[-6:]  # the task and the last three steps


def ask(model: str, messages: list[dict[str, str]]) -> str | None:
    """Return the model's response; None if no more will come, for example because the budget is exhausted."""
    request = urllib.request.Request(
        f"{os.environ['OPENAI_BASE_URL']}/chat/completions",
        json.dumps({"model": model, "messages": messages}).encode(),
        {"Content-Type": "application/json", "Authorization": f"Bearer {os.environ['OPENAI_API_KEY']}"},
    )
    for pause in (5, 30, 120, 0):
        try:
            with urllib.request.urlopen(request, timeout=600) as answer:
                return json.load(answer)["choices"][0]["message"]["content"] or ""
        except urllib.error.HTTPError as error:
            reason = error.read().decode(errors="replace")
            print(f"the model's API answers {error.code}: {reason[:500]}", flush=True)
            if error.code < 429 or "insufficient_quota" in reason:
                return None
        except OSError as error:
            print(f"the model's API cannot be reached: {error}", flush=True)
        time.sleep(max(0, min(pause, DEADLINE - time.time() - MARGIN)))
    return None


def run(program: Path) -> str:
    """Run a program and return its output and errors."""
    Path("candidate.csv").unlink(missing_ok=True)
    command = [sys.executable, str(program)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=max(1, DEADLINE - time.time() - MARGIN)
        )
    except subprocess.TimeoutExpired:
        return "The program took too long."
    return done.stderr + done.stdout


def score_of(output: str) -> tuple[float | None, float]:
    """Return the score on the last line, and the score with its sign changed if lower is better."""
    try:
        said = json.loads(output.strip().splitlines()[-1])
        score = float(said["validation_score"])
        return score, -score if said["lower_is_better"] else score
    except (IndexError, KeyError, TypeError, ValueError):
        return None, 0.0


def submit(score: float) -> str:
    """Submit candidate.csv if it is well formed; otherwise, return the reason."""
    candidate = Path("candidate.csv")
    if not candidate.is_file():
        return "there is no such file"
    check = subprocess.run(
        ["bash", AGENT.parent / "validate_submission.sh", candidate], capture_output=True, text=True, errors="replace"
    )
    if "Submission is valid" not in check.stdout:
        return check.stdout[-1000:] + check.stderr[-1000:]
    (SUBMISSION / "validation.json").write_text(json.dumps({"validation_score": score}))
    candidate.replace(SUBMISSION / "submission.csv")
    return ""


if __name__ == "__main__":
    main()
