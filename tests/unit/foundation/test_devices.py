"""Torch uses one thread by default, and devices are chosen by name."""

import pytest
import torch

from bandgap.foundation.errors import ConfigError
from bandgap.foundation.machine import choose_device, set_threads


@pytest.fixture(autouse=True)
def threads_as_before():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def test_environment_sets_the_threads_and_an_argument_overrides_it(monkeypatch):
    monkeypatch.setenv("BANDGAP_THREADS", "3")
    assert set_threads() == torch.get_num_threads() == 3
    assert set_threads(2) == torch.get_num_threads() == 2


@pytest.mark.parametrize("text", ["0", "-1", "two", ""])
def test_threads_that_are_not_a_whole_number_are_refused(monkeypatch, text):
    monkeypatch.setenv("BANDGAP_THREADS", text)
    with pytest.raises(
        ConfigError,
        match=f"BANDGAP_THREADS is '{text}'. Accepted: a whole number from 1. Unset it to use 1",
    ):
        set_threads()


def test_cpu_is_chosen_by_name_and_auto_is_cuda_if_available():
    assert choose_device("cpu") == torch.device("cpu")
    assert choose_device().type == ("cuda" if torch.cuda.is_available() else "cpu")


def test_unknown_device_is_refused_with_the_accepted_names():
    with pytest.raises(ConfigError, match="device is 'tpu'. Accepted: auto, cpu, cuda"):
        choose_device("tpu")


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has CUDA")
def test_cuda_is_refused_if_there_is_none():
    with pytest.raises(
        ConfigError, match="torch finds no CUDA device here. Use --device cpu or auto"
    ):
        choose_device("cuda")
