"""A Dask cluster of processes on this machine, whose workers are killed and replaced."""

import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass
class Cluster:
    """A scheduler and its workers, each a process."""

    address: str
    scheduler: "subprocess.Popen[str]"
    workers: list["subprocess.Popen[str]"]
    folder: Path  # where its processes run

    def add_worker(self) -> None:
        command = [sys.executable, "-m", "dask", "worker", self.address, "--nthreads=1", "--no-nanny", "--no-dashboard"]
        command += [f"--local-directory={self.folder}"]
        environment = {name: value for name, value in os.environ.items() if name != "BANDGAP_HOME"}
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "text": True}
        self.workers.append(subprocess.Popen(command, env=environment, cwd=self.folder, **quiet))

    def kill_one(self) -> None:
        self.workers[0].send_signal(signal.SIGKILL)
        self.workers.pop(0).wait()
