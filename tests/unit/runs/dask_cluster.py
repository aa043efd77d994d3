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
    killed: int = 0

    def add_worker(self) -> None:
        command = [
            sys.executable,
            "-m",
            "dask",
            "worker",
            self.address,
            "--nthreads=1",
            "--no-nanny",
            "--no-dashboard",
        ]
        command += [f"--local-directory={self.folder}"]
        environment = {name: value for name, value in os.environ.items() if name != "BANDGAP_HOME"}
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "text": True}
        self.workers.append(subprocess.Popen(command, env=environment, cwd=self.folder, **quiet))

    def kill_one(self) -> None:
        self.workers[0].send_signal(signal.SIGKILL)
        self.workers.pop(0).wait()
        self.killed += 1

    def forget_dead_workers(self) -> None:
        """Leave the workers that run, so that the next test adds as many as are missing."""
        self.workers[:] = [worker for worker in self.workers if worker.poll() is None]

    def steps(self) -> int:
        """Return how many steps all tasks have taken since the scheduler was started."""
        import distributed

        def counted(dask_scheduler: distributed.Scheduler) -> int:
            return int(dask_scheduler.transition_counter)

        with distributed.Client(self.address, set_as_default=False) as client:
            return int(client.run_on_scheduler(counted))
