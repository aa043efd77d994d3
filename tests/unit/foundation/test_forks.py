"""A map in forked processes: the results of a loop, with what this process holds, and clear ends."""

import os
import signal
import subprocess
import sys
import time

import pytest

from bandgap.foundation.errors import BandgapError, InputError
from bandgap.foundation.forks import ForkedItems, can_fork, mapped_by_forks

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks are used on Linux only")
HELD: list[int] = []


def add_held(number):
    return number + HELD[0], os.getpid()


def refuse(number):
    if number == 3:
        raise InputError("three is refused")
    return number


def die(number):
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.fixture
def held():
    HELD.append(100)  # after the import: a process that is spawned would not have it
    yield
    HELD.clear()


def test_forks_see_what_is_loaded_and_answer_in_order(held):
    assert can_fork()
    found = list(mapped_by_forks(add_held, ((n,) for n in range(20)), n_jobs=2, ahead=2))
    assert [number for number, _ in found] == list(range(100, 120))
    assert 1 <= len({pid for _, pid in found}) <= 2 and os.getpid() not in {pid for _, pid in found}


def test_tasks_are_taken_as_they_are_needed():
    taken = []

    def tasks():
        for n in range(1000):
            taken.append(n)
            yield (n,)

    found = mapped_by_forks(abs, tasks(), n_jobs=2, ahead=3)
    assert [next(found) for _ in range(4)] == [0, 1, 2, 3]
    found.close()
    assert len(taken) == 4 + 5


def test_what_the_function_raises_is_raised_after_the_results_before_it():
    found = mapped_by_forks(refuse, ((n,) for n in range(9)), n_jobs=2, ahead=2)
    assert [next(found) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(InputError, match="three is refused"):
        next(found)


def test_a_killed_process_is_said_in_a_sentence():
    with pytest.raises(
        BandgapError, match="was killed, probably as memory ran out. Use fewer jobs"
    ):
        list(mapped_by_forks(die, ((n,) for n in range(9)), n_jobs=2, ahead=2))


def test_forks_end_with_the_process_that_is_killed():
    code = (
        "import os, time\n"
        "from bandgap.foundation.forks import mapped_by_forks\n"
        "def work(k):\n"
        "    return os.getpid()\n"
        "found = mapped_by_forks(work, ((k,) for k in range(99)), n_jobs=2, ahead=2)\n"
        "print(next(found), flush=True)\n"
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


def held_and_pid():
    for number in range(3):
        yield number + HELD[0], os.getpid()


def refused_at_two():
    yield 1
    raise InputError("two is refused")


def killed_at_two():
    yield 1
    os.kill(os.getpid(), signal.SIGKILL)


def test_items_of_a_fork_come_in_order_from_another_process_and_end(held):
    items = ForkedItems(held_and_pid)
    found = list(items)
    assert [number for number, _ in found] == [100, 101, 102]
    assert len({pid for _, pid in found}) == 1 and os.getpid() not in {pid for _, pid in found}
    assert items.ready() and next(items, None) is None


@pytest.mark.parametrize(
    ("function", "kind", "text"),
    [
        (refused_at_two, InputError, "^two is refused$"),
        (killed_at_two, BandgapError, "was killed, probably as memory"),
    ],
)
def test_what_ends_the_items_of_a_fork_is_raised_at_their_end_each_time(function, kind, text):
    items = ForkedItems(function)
    assert next(items) == 1
    for _ in range(2):
        with pytest.raises(kind, match=text):
            next(items)


def test_fork_ends_when_nobody_wants_its_items_any_more():
    def endless():
        while True:
            yield os.getpid()
            time.sleep(0.01)

    items = ForkedItems(endless)
    pid = next(items)
    del items
    deadline = time.monotonic() + 20
    while _runs(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _runs(pid)


def _runs(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return (
                file.read().rpartition(")")[2].split()[0] != "Z"
            )  # ended, and nobody has asked how
    except FileNotFoundError:
        return False
