import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.synthetic import first_value, standard

from .prepare import TEST_ROWS

# The test set always takes up to this many rows of train_ancestors.csv. A filler notebook that is listed thousands
# of times takes nearly all of them, so few real notebooks are needed.
SOURCES = [
    "import numpy as np",
    "# Introduction",
    "df.head()",
    "x = 'a\nb'",
    'Größe "und" Ziel',
    "print(1)",
    "plt.show()",
]


def make(raw: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    family_sizes = [*rng.integers(1, 5, 34), 12, 12, 30]
    rng.shuffle(family_sizes)
    rows: list[tuple[str, str, str | None]] = []
    orders: dict[str, str] = {}
    for size in family_sizes:
        ancestor = rng.bytes(4).hex()
        members = [rng.bytes(7).hex() for _ in range(size)]
        for k, member in enumerate(members):
            orders[member] = _notebook(raw / "train" / f"{member}.json", rng)
            parent = None if k == 0 and rng.random() < 0.8 else rng.choice([*members[:k], rng.bytes(7).hex()])
            rows.append((member, ancestor, parent))
    orders["f"] = _notebook(raw / "train" / "f.json", rng)
    rows += [("f", "a", None)] * (TEST_ROWS - len(rows) // 2)
    rng.shuffle(rows)
    pd.DataFrame(rows, columns=["id", "ancestor_id", "parent_id"]).to_csv(raw / "train_ancestors.csv", index=False)
    table = pd.DataFrame({"id": orders.keys(), "cell_order": orders.values()})
    table.take(rng.permutation(len(orders))).to_csv(raw / "train_orders.csv", index=False)
    (raw / "test").mkdir()
    (raw / "test" / "0009d135ece78d.json").write_text(
        '{"cell_type": {"ddfd239c": "code"}, "source": {"ddfd239c": "1"}}'
    )
    (raw / "sample_submission.csv").write_text("id,cell_order\n0009d135ece78d,ddfd239c\n")


def _notebook(path: Path, rng: np.random.Generator) -> str:
    """Write a notebook with its text cells shuffled to the end; returns the true order."""
    n = int(rng.integers(2, 14))
    cells = [rng.bytes(4).hex() for _ in range(n)]
    n_code = max(1, min(n - 1, int(rng.integers(1, n))))
    is_code = np.zeros(n, bool)
    is_code[rng.choice(n, n_code, replace=False)] = True
    code = [cell for cell, true in zip(cells, is_code, strict=True) if true]
    markdown = [cell for cell, true in zip(cells, is_code, strict=True) if not true]
    shown = code + [markdown[k] for k in rng.permutation(len(markdown))]
    notebook = {
        "cell_type": {cell: "markdown" if cell in markdown else "code" for cell in shown},
        "source": {cell: str(rng.choice(SOURCES)) for cell in shown},
    }
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(notebook, ensure_ascii=bool(rng.random() < 0.5)), encoding="utf-8")
    return " ".join(cells)


def submissions(public: Path, private: Path, rng: np.random.Generator) -> dict[str, Any]:
    answers = pd.read_csv(private / "test_orders.csv")
    given = pd.read_csv(public / "sample_submission.csv")
    notebooks = [cells.split() for cells in answers.cell_order]

    def order(change: Callable[[list[str]], Any]) -> pd.DataFrame:
        return answers.assign(cell_order=[" ".join(change([*cells])) for cells in notebooks])

    def swap(cells: list[str]) -> list[str]:
        for _ in range(3):
            i, j = rng.integers(0, len(cells), 2)
            cells[i], cells[j] = cells[j], cells[i]
        return cells

    good = order(swap)
    cells = notebooks[0]
    return {
        "reversed": order(lambda cells: cells[::-1]),
        "random": order(rng.permutation),
        "one_swap": order(lambda cells: [cells[1], cells[0], *cells[2:]]),
        "sorted_cells": order(sorted),
        "column_order_and_extra": given.assign(extra=0)[["extra", "cell_order", "id"]],
        "surplus_spaces": good.assign(cell_order="  " + good.cell_order.str.replace(" ", "   ") + " "),
        **first_value(good, "cell_order", missing_cell=" ".join(cells[1:])),
        **first_value(good, "cell_order", surplus_cell=" ".join([*cells, "00000000"])),
        **first_value(good, "cell_order", repeated_cell=" ".join([cells[1], *cells[1:]])),
        **first_value(good, "cell_order", unknown_cell=" ".join(["zzzzzzzz", *cells[1:]]), one_empty=None),
        "comma_separated": good.assign(cell_order=good.cell_order.str.replace(" ", ",")),
        "all_empty": good.assign(cell_order=None),
        "numbers": good.assign(cell_order=range(len(good))),
        "missing_cell_order": good[["id"]],
        **standard(good, "id", "zzz", also="missing_id"),
    }
