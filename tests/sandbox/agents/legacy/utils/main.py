import os
import shutil
import sys
from pathlib import Path

import six  # noqa: F401

print("arguments:", *sys.argv[1:])
print("steps:", os.environ["STEP_LIMIT"], "key:", os.environ.get("LEGACY_API_KEY", "none"), "in", sys.prefix)
work = Path("workspaces/exp")
shutil.copy("/home/data/sample_submission.csv", work / "best_submission/submission.csv")
(work / "best_solution/solution.py").write_text("print('solved')\n")
Path("logs/exp/journal.json").write_text("{}")
print(Path("full_instructions.txt").read_text().splitlines()[-1])
