"""What the Dockerfiles of agents reach while their images are built.

==============  ======================================================================================================
``none``        nothing
``registries``  registries of packages and models, through the proxy that also serves agents: an internal network whose
                only other member is this machine. What this machine offers on all its addresses can be reached too.
``full``        everything; with Podman, also what this machine offers to itself alone (``localhost``)
==============  ======================================================================================================

Podman has no ``registries``: its builder cannot join a network that is given by name.

The builder runs a Dockerfile's commands as root of a container with the engine's own confinement. Whoever wrote the
Dockerfile can send out what is in the agent's folder, and nothing else.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import docker
from docker.errors import APIError, DockerException

from pytest_mlebench.errors import SandboxError
from pytest_mlebench.io.processes import LABEL
from pytest_mlebench.sandbox.docker.engine import explain, is_podman
from pytest_mlebench.sandbox.network.policy import Endpoint
from pytest_mlebench.sandbox.network.proxy import Proxy

NETWORK = "mlebench-build"
_REGISTRIES = (
    *("pypi.org", "files.pythonhosted.org", "download.pytorch.org", "*.download.pytorch.org"),
    *("http://deb.debian.org", "deb.debian.org", "http://security.debian.org", "security.debian.org"),
    *("http://archive.ubuntu.com", "http://security.ubuntu.com", "http://ports.ubuntu.com"),
    *("conda.anaconda.org", "repo.anaconda.com", "registry.npmjs.org", "index.crates.io", "static.crates.io"),
    *("proxy.golang.org", "sum.golang.org", "cran.r-project.org", "cloud.r-project.org", "huggingface.co"),
)
_OWN_INDEXES = ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL")
"""Where this machine's own pip looks counts as a registry."""


@contextmanager
def build_network(client: docker.DockerClient, kind: str) -> Iterator[tuple[str | None, dict[str, str]]]:
    """The builder's network mode, and the build arguments that lead through the proxy."""
    if kind == "full":
        yield None, {}
        return
    podman = is_podman(client)
    if kind == "none":
        # Podman's builder takes a policy in place of a mode, and this machine's own network for any other word.
        yield ("NetworkDisabled" if podman else "none"), {}
        return
    if podman:
        raise SandboxError(
            f"Podman's builder cannot be kept to the network {kind}: use --build-network=none or --build-network=full"
        )
    own = (url for name in _OWN_INDEXES for url in os.environ.get(name, "").split() if "://" in url)
    allowed = dict.fromkeys(Endpoint.parse(text) for text in (*_REGISTRIES, *own))
    with Proxy(allowed, address=(_gateway(client), 0)) as proxy:
        url = f"http://{proxy.address[0]}:{proxy.address[1]}"
        names = ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy")
        yield NETWORK, {**dict.fromkeys(names, url), "NO_PROXY": "", "no_proxy": ""}


def _gateway(client: docker.DockerClient) -> str:
    """The address of this machine in the internal network, which is made if it is not there."""
    try:
        if not client.networks.list(names=[f"^{NETWORK}$"]):
            try:
                client.networks.create(NETWORK, driver="bridge", internal=True, labels={f"{LABEL}network": "build"})
            except APIError:  # another worker made it meanwhile
                if not client.networks.list(names=[f"^{NETWORK}$"]):
                    raise
        network = client.networks.get(NETWORK)
        return str(network.attrs["IPAM"]["Config"][0]["Gateway"])
    except (DockerException, OSError, LookupError) as error:
        raise SandboxError(f"the network {NETWORK} for builds cannot be made: {explain(error)}") from error
