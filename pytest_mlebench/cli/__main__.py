"""Runs ``mlebench`` as ``python -m pytest_mlebench.cli``."""

import sys

from pytest_mlebench.cli.main import main

sys.exit(main())
