import sys
from pathlib import Path

from . import SOLVERS

id, public, submission = sys.argv[1:]
SOLVERS[id](Path(public)).to_csv(submission, index=False)
