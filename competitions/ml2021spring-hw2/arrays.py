"""Arrays in numpy's .npy files that are larger than memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_mlebench.errors import DataError

_BLOCK_BYTES = 1 << 24


def open_array(path: Path) -> NDArray[Any]:
    """Return the array of a .npy file, memory-mapped. Raises DataError if the file is missing or is not one."""
    if not path.is_file():
        raise DataError(f"file {path} is missing in the raw data")
    try:
        array: NDArray[Any] = np.load(path, mmap_mode="r")
    except (ValueError, EOFError) as error:
        raise DataError(f"{path} is damaged, or is not an array of numbers or short strings: {error}") from error
    return array


def take_rows(source: Path, rows: NDArray[np.intp], target: Path) -> None:
    """Write the rows with the numbers ``rows``, in this order, to a new file in the format of ``numpy.save``."""
    array = open_array(source)
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("xb") as file:
        header = np.lib.format.header_data_from_array_1_0(array)
        header |= {"fortran_order": False, "shape": (len(rows), *array.shape[1:])}
        np.lib.format.write_array_header_1_0(file, header)
        block = max(1, _BLOCK_BYTES // max(1, array[:1].nbytes))
        for start in range(0, len(rows), block):
            file.write(array[rows[start : start + block]].tobytes())
