"""``python -m pytest_mlebench.cli`` is ``mlebench``."""

import sys

from pytest_mlebench.cli.main import main

sys.exit(main())
