"""The example notebook, run by Jupyter on a new run group."""

from __future__ import annotations

import json
import os
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.examples.conftest import EXAMPLES, Run


@pytest.mark.full
def test_it_reads_a_group_and_plots_it(folder: Path, run: Run) -> None:
    if not all(map(find_spec, ("ipykernel", "matplotlib", "nbclient"))):
        (pytest.fail if os.environ.get("CI") else pytest.skip)('no Jupyter: pip install "pytest-mlebench[docs]"')
    run(
        "pytest --agent=three-lines --agents-dir=agents --split=smoke -k diabetes "
        "--trust-agent=three-lines --sandbox=local",
        folder,
    )
    notebook = json.loads((EXAMPLES / "notebook.ipynb").read_text())
    for cell in notebook["cells"]:
        cell.pop("outputs", None)
        if cell["cell_type"] == "code":
            cell["outputs"] = []
    (folder / "notebook.ipynb").write_text(json.dumps(notebook))
    run("jupyter execute --inplace notebook.ipynb", folder)
    cells = json.loads((folder / "notebook.ipynb").read_text())["cells"]
    shown = [output for cell in cells for output in cell.get("outputs", ())]
    assert "smoke-diabetes" in "".join(shown[0]["data"]["text/plain"])
    assert sum("image/png" in output["data"] for output in shown) == 2
