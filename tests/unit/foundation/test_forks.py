"""A map in forked processes: results of a loop, state of this process, and errors."""

import os
import signal
import subprocess
import sys
import time

import pytest

from bandgap.foundation.errors import BandgapError, InputError
from bandgap.foundation.forks import can_fork, mapped_by_forks

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks are used on Linux only")
STATE: list[int] = []


def add_state(number):
    return number + STATE[0], os.getpid()


def refuse(number):
    if number == 3:
        raise InputError("three is refused")
    return number


def die(number):
    os.kill(os.getpid(), signal.SIGKILL)


def die_once(number, marks):
    """Return the number; a process that receives a multiple of 4 for the first time is killed."""
    if number % 4 == 0 and not (marks / str(number)).exists():
        (marks / str(number)).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number


@pytest.fixture
def state():
    # Set after the import, so that a spawned process would not have it.
    STATE.append(100)
    yield
    STATE.clear()


def test_forks_have_the_state_of_this_process_and_results_are_in_order(state):
    assert can_fork()
    results = list(mapped_by_forks(add_state, ((n,) for n in range(20)), n_jobs=2, ahead=2))
    assert [number for number, _ in results] == list(range(100, 120))
    pids = {pid for _, pid in results}
    assert 1 <= len(pids) <= 2
    assert os.getpid() not in pids


def test_tasks_are_read_as_they_are_needed():
    read = []

    def tasks():
        for n in range(1000):
            read.append(n)
            yield (n,)

    results = mapped_by_forks(abs, tasks(), n_jobs=2, ahead=3)
    assert [next(results) for _ in range(4)] == [0, 1, 2, 3]
    results.close()
    assert len(read) == 4 + 5


def test_error_of_the_function_is_raised_after_the_results_before_it():
    results = mapped_by_forks(refuse, ((n,) for n in range(9)), n_jobs=2, ahead=2)
    assert [next(results) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(InputError, match="three is refused"):
        next(results)


def test_tasks_of_killed_processes_are_computed_again(tmp_path):
    tasks = ((n, tmp_path) for n in range(20))
    assert list(mapped_by_forks(die_once, tasks, n_jobs=2, ahead=2)) == list(range(20))
    assert len(list(tmp_path.iterdir())) == 5


def test_task_whose_process_is_killed_twice_is_reported():
    with pytest.raises(BandgapError, match="was killed twice, probably as memory ran out"):
        list(mapped_by_forks(die, ((n,) for n in range(9)), n_jobs=2, ahead=2))


def test_forks_end_when_their_process_is_killed():
    code = (
        "import os, time\n"
        "from bandgap.foundation.forks import mapped_by_forks\n"
        "def work(k):\n"
        "    return os.getpid()\n"
        "results = mapped_by_forks(work, ((k,) for k in range(99)), n_jobs=2, ahead=2)\n"
        "print(next(results), flush=True)\n"
        "time.sleep(60)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", code], stdout=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdout is not None
        fork = int(process.stdout.readline())
        assert os.path.exists(f"/proc/{fork}")
        process.kill()
    deadline = time.monotonic() + 20
    while _runs(fork) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _runs(fork)


def _runs(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            # A zombie has ended, but its parent has not read its exit status.
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
