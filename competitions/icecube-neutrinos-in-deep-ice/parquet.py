"""Parquet tables that are larger than memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pytest_mlebench.errors import DataError

_ROWS = 1 << 20


def distinct_values(path: Path, column: str) -> list[Any]:
    """Return the distinct values of a column, in order of first appearance."""
    values: dict[Any, None] = {}
    for rows in _open(path).iter_batches(_ROWS, columns=[column]):
        values.update(dict.fromkeys(rows.column(0).unique().to_pylist()))
    return list(values)


def filter_parquet(
    source: Path, target: Path, column: str, values: Iterable[Any], columns: Sequence[str] | None = None
) -> None:
    """Write the rows with one of the values in ``column`` to a new table, in order, with all or only some columns."""
    table = _open(source)
    fields = [table.schema_arrow.field(name) for name in columns or table.schema_arrow.names]
    wanted = pa.array(values, table.schema_arrow.field(column).type)
    target.parent.mkdir(parents=True, exist_ok=True)
    with pq.ParquetWriter(target, pa.schema(fields)) as writer:
        for rows in table.iter_batches(_ROWS):
            writer.write_batch(rows.filter(pc.is_in(rows[column], wanted)).select([field.name for field in fields]))


def _open(path: Path) -> pq.ParquetFile:
    if not path.is_file():
        raise DataError(f"table {path} is missing in the raw data")
    try:
        return pq.ParquetFile(path, pre_buffer=False)  # a buffer would fill up with the whole table
    except pa.ArrowInvalid as error:
        raise DataError(f"table {path} is damaged: {error}") from error
