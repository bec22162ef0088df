"""What the GPUs of a run did while it ran, as NVIDIA's driver tells: samples of utilisation and memory."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import TracebackType

from pytest_mlebench.sandbox.gpus import Gpu, query

_FIRST_SECONDS, _INTERVAL_SECONDS = 1.0, 10.0
_MIB = 1 << 20


@dataclass
class _Series:
    values: int = 0
    total: float = 0.0
    peak: float = 0.0

    def add(self, value: float) -> None:
        self.values += 1
        self.total += value
        self.peak = max(self.peak, value)


@dataclass
class _Gpu:
    utilization: _Series = field(default_factory=_Series)
    memory: _Series = field(default_factory=_Series)


class GpuUsage:
    """A context manager that samples while an agent runs; a run without GPUs costs nothing.

    ``summary`` has for each GPU, by UUID, the number of ``samples``, ``utilization_mean`` and ``utilization_peak`` in
    percent, and ``memory_mean`` and ``memory_peak`` in bytes. What the driver does not tell is left out, as is the
    utilisation of MIG instances, which it does not measure.
    """

    def __init__(self, gpus: Sequence[Gpu]) -> None:
        # Of an instance, the driver tells what its GPU did, which others use as well: that is no account of this run.
        self._uuids = [gpu.uuid for gpu in gpus if not gpu.parent]
        self._seen: dict[str, _Gpu] = {}
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> GpuUsage:
        if self._uuids:
            self._thread.start()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._done.set()
        if self._uuids:
            self._thread.join()

    @property
    def summary(self) -> dict[str, dict[str, float]]:
        return {uuid: values for uuid, gpu in self._seen.items() if (values := _summary(gpu))}

    def _watch(self) -> None:
        pause = _FIRST_SECONDS
        while not self._done.wait(pause):
            self._sample()
            pause = _INTERVAL_SECONDS

    def _sample(self) -> None:
        for line in query("uuid,utilization.gpu,memory.used", *self._uuids):
            uuid, *numbers = [text.strip() for text in line.split(",")]
            if uuid in self._uuids and len(numbers) == 2:
                gpu = self._seen.setdefault(uuid, _Gpu())
                for series, text, unit in ((gpu.utilization, numbers[0], 1), (gpu.memory, numbers[1], _MIB)):
                    if text.isdecimal():  # else [N/A], [Not Supported], …
                        series.add(int(text) * unit)


def _summary(gpu: _Gpu) -> dict[str, float]:
    values: dict[str, float] = {}
    for name, series in (("utilization", gpu.utilization), ("memory", gpu.memory)):
        if series.values:
            values |= {"samples": series.values, f"{name}_mean": round(series.total / series.values, 1)}
            values[f"{name}_peak"] = series.peak
    return values
