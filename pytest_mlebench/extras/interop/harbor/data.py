"""How a task's containers get data: copied into their images, mounted, or pulled when the task runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_mlebench.data.dataset import Dataset
from pytest_mlebench.data.preparing import VARIABLE

DATA = "/home/data"
ANSWERS = "/tests/data"
SCHEMES = {"s3": ("fsspec", "s3fs"), "gs": ("fsspec", "gcsfs"), "https": ("fsspec", "aiohttp")}
"""Libraries for pulling, by URL scheme. ``file`` is missing: a container has no folders of other machines."""
CREDENTIALS = (
    *("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL"),
    *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"),
)
"""Variables of Harbor's environment for containers that pull data."""
_BYTES_PER_SECOND = 4 << 20
_START_SECONDS = 600.0


@dataclass(frozen=True, kw_only=True)
class TaskData:
    """The URL from which tasks pull a competition's data, with the expected digest and size."""

    url: str
    """URL without user and password."""
    digest: str
    size: int

    @property
    def seconds(self) -> float:
        """Timeout for pulling."""
        return _START_SECONDS + self.size / _BYTES_PER_SECOND

    @property
    def libraries(self) -> tuple[str, ...]:
        return SCHEMES[self.url.partition("://")[0]]

    def wanted(self, dataset: Dataset, *only: str, show: str) -> str:
        """The JSON argument of ``fetch.py``: the parts to pull, and the folder to show."""
        competition = dataset.competition
        return json.dumps(
            {
                "competition_id": competition.id,
                "bench_version": competition.version,
                "corrected": competition.is_corrected,
                "digest": self.digest,
                "only": only,
                "show": show,
            }
        )

    @property
    def variables(self) -> list[str]:
        """The environment of a container that pulls data. Harbor's environment can override the URL of the export."""
        url = f"${{{VARIABLE}:?set it to {self.url}}}" if "***@" in self.url else f"${{{VARIABLE}:-{self.url}}}"
        return [f"{VARIABLE}={url}", *CREDENTIALS]


def mounts(dataset: Dataset, side: str, target: str) -> dict[str, Any]:
    """A Compose file that mounts prepared data from the data folder on the container runtime's machine."""
    data = "/".join(filter(None, (dataset.competition.id, dataset.prepared.name, side)))
    variable = "${MLEBENCH_DATA_DIR:?set it to the data folder of mlebench}"
    return {"services": {"main": {"volumes": [f"{variable}/{data}:{target}:ro"]}}}


def pulls_public(dataset: Dataset, source: TaskData, image: str | None) -> dict[str, Any]:
    """A Compose file whose service ``data`` pulls the public files before the agent's container starts.

    The agent's container sees them read-only, and gets no credentials. Its network limits do not apply to the service.
    """
    command = ["python", "-I", "/opt/mlebench/fetch.py", source.wanted(dataset, "public", show="public"), "/mnt/data"]
    program = '"$$@" && { [ ! -e /opt/mlebench/description.md ] || cp /opt/mlebench/description.md /mnt/data/; }'
    service = {
        "image": image or "${COMPOSE_PROJECT_NAME}-main",
        **({} if image else {"pull_policy": "never"}),
        "user": "root",
        "entrypoint": ["sh", "-c", f"{program} && touch /tmp/complete && exec sleep infinity", "sh"],
        "command": ["/opt/mlebench/grading/venv/bin/python", *command[1:]],
        "environment": source.variables,
        "networks": ["default"],
        "volumes": ["data:/mnt/data"],
        "healthcheck": {
            "test": ["CMD", "test", "-e", "/tmp/complete"],
            "interval": "1s",
            "retries": round(source.seconds),
        },
    }
    main = {"depends_on": {"data": {"condition": "service_healthy"}}, "volumes": [f"data:{DATA}:ro"]}
    return {"services": {"data": service, "main": main}, "volumes": {"data": {}}}


def write_compose(folder: Path, values: Mapping[str, Any]) -> None:
    """Write a Compose file; JSON is YAML too."""
    (folder / "docker-compose.yaml").write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")
