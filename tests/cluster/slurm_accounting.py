"""A temporary Slurm with accounting, by ``slurmdbd`` and a separate MariaDB."""

from __future__ import annotations

import getpass
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cluster.ports import free_ports
from tests.cluster.slurm_cluster import SlurmCluster

PROGRAMS = ("slurmdbd", "sacctmgr", "mariadbd", "mariadb-install-db", "mariadb")
_DATABASE_DAEMON = """
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort={port}
SlurmUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={database}
StorageUser=slurm
StoragePass=slurm
StorageLoc=slurm
LogFile={folder}/slurmdbd.log
PidFile={folder}/slurmdbd.pid
"""
_CONFIGURATION = """
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={port}
AccountingStoragePass={folder}/munge.socket
AccountingStorageEnforce=associations,limits
"""


class AccountedSlurm(SlurmCluster):
    """``account`` is the only account and this user's. Accounting keeps jobs that the controller has forgotten."""

    account = "lab"

    def __init__(self, folder: Path, *, nodes: int = 1) -> None:
        super().__init__(folder, nodes=nodes)
        self._ports = free_ports(2)
        port, database = self._ports
        with (folder / "slurm.conf").open("a") as file:
            file.write(_CONFIGURATION.format(folder=folder, port=port))
        own = folder / "slurmdbd.conf"
        own.write_text(_DATABASE_DAEMON.format(user=getpass.getuser(), folder=folder, port=port, database=database))
        own.chmod(0o600)

    def start_controller(self, *options: str) -> None:
        if "slurmdbd" not in self._daemons:
            self._start_accounts()
        super().start_controller(*options)

    def forget(self) -> None:
        """Restart the controller without its state, so that it forgets jobs."""
        self.kill("slurmctld")
        self.start_controller("-c")

    def _start_accounts(self) -> None:
        data, socket = self.folder / "database", self.folder / "mariadb.socket"
        _, port = self._ports
        self.call(
            *("mariadb-install-db", "--no-defaults", "--user=root", f"--datadir={data}", "--skip-test-db"),
            "--auth-root-authentication-method=normal",
        )
        self._start(
            "mariadbd",
            *("mariadbd", "--no-defaults", "--user=root", f"--datadir={data}", f"--socket={socket}", f"--port={port}"),
            *("--bind-address=127.0.0.1", f"--pid-file={self.folder}/mariadbd.pid"),
        )
        user = "CREATE USER IF NOT EXISTS slurm@'127.0.0.1' IDENTIFIED BY 'slurm'"
        sql = f"{user}; GRANT ALL ON slurm.* TO slurm@'127.0.0.1'"
        self.wait_for("mariadb", "--no-defaults", f"--socket={socket}", "--user=root", f"--execute={sql}", until=None)
        self._start("slurmdbd", "slurmdbd", "-D")
        self.wait_for("sacctmgr", "--immediate", "add", "cluster", "mlebench", until=None)
        self.manage("add", "account", self.account)
        self.manage("add", "user", getpass.getuser(), f"account={self.account}")

    def manage(self, *arguments: str) -> None:
        self.call("sacctmgr", "--immediate", *arguments)


@contextmanager
def running_accounted_slurm(*, nodes: int = 1) -> Iterator[AccountedSlurm]:
    with tempfile.TemporaryDirectory(prefix="slurm-") as folder:
        cluster = AccountedSlurm(Path(folder), nodes=nodes)
        try:
            cluster.start()
            yield cluster
        finally:
            cluster.stop()
