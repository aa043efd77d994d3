"""Every public function refuses bad arguments by a typed error that says what is accepted."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ase.build import bulk, molecule

import bandgap
from bandgap import LabelledSet, SourceRequest

ATOMS = [bulk("Si"), bulk("Ge"), bulk("C", "diamond", 3.57)]
GAPS = [1.1, 0.7, 5.5]
CONFIG = bandgap.config_for(species=("C", "Ge", "Si"))
SOURCE = SourceRequest(species=("C", "Ge", "Si"))
STRUCTURES = "Accepted: one or several of ase.Atoms, a pymatgen Structure or Molecule, the path"
PATH = "Accepted: the path of a"
NUMBERS = "Accepted: one number in eV for each structure"
RANGE = "Accepted: 0 to 100 eV."
COUNT = "Accepted: a whole number from 1"
Call = Callable[[Path], Any]


def source_of(gaps: Any) -> Call:
    data = LabelledSet(ATOMS, gaps)
    return lambda folder: bandgap.train_source_run(data, SOURCE, out=folder / "source")


def sources_of(gaps: Any) -> Call:
    sets = {"set": LabelledSet(ATOMS, gaps)}
    return lambda folder: bandgap.train_sources_run(
        sets, descriptor=CONFIG, config=None, training=None, out=folder / "sources", seed=0
    )


def proposal_of(gaps: Any, **options: Any) -> Call:
    return lambda _: bandgap.propose_for(ATOMS, gaps, has_source=False, **options)


def with_labels(**options: Any) -> Call:
    return lambda _: bandgap.read_labels(b"id,gap_eV\na,1\n", **options)


CALLS: dict[str, tuple[Call, str]] = {
    "featurize none": (lambda _: bandgap.featurize(None, CONFIG), STRUCTURES),
    "featurize config": (lambda _: bandgap.featurize(ATOMS, "oe62-16"), "bandgap.DescriptorConfig"),
    "featurize n_jobs": (lambda _: bandgap.featurize(ATOMS, CONFIG, n_jobs=2.0), COUNT),
    "featurize cache": (lambda f: bandgap.featurize(ATOMS, CONFIG, cache=f), "DescriptorCache"),
    "config_for symbol": (lambda _: bandgap.config_for(species=("Xx",)), "chemical symbols"),
    "config_for preset": (lambda _: bandgap.config_for(preset="magic"), "Accepted: thesis-1260"),
    "load_demo": (lambda _: bandgap.load_demo("magic"), "Accepted: molecules, crystals"),
    "load_source none": (lambda _: bandgap.load_source(None), PATH),
    "load_source foreign": (bandgap.load_source, "has no manifest.json"),
    "read_labels none": (lambda _: bandgap.read_labels(None), PATH),
    "read_labels missing": (lambda f: bandgap.read_labels(f / "no.csv"), "cannot be read"),
    "read_labels unit": (with_labels(unit="furlong"), "Accepted: eV"),
    "read_labels column": (with_labels(column="no"), "Found: 'id', 'gap_eV'"),
    "match_labels": (lambda _: bandgap.match_labels(["a"], ["f"], {"a": 1.0}), "bandgap.Labels"),
    "read_paths none": (lambda _: bandgap.read_paths(None), PATH),
    "cache number": (lambda _: bandgap.DescriptorCache(5), PATH),
    "propose_for negative": (proposal_of([-1.0, 1.0, 2.0]), RANGE),
    "propose_for n": (proposal_of(GAPS, n=20.0), COUNT),
    "train_source_run negative": (source_of([-1.0, 1.0, 2.0]), RANGE),
    "train_source_run request": (
        lambda f: bandgap.train_source_run(LabelledSet(ATOMS, GAPS), None, out=f / "s"),
        "bandgap.SourceRequest",
    ),
    "train_source_run foreign": (
        lambda f: bandgap.train_source_run(LabelledSet(ATOMS, GAPS), SOURCE, out=f),
        "Give a new",
    ),
    "train_source_run out": (
        lambda _: bandgap.train_source_run(LabelledSet(ATOMS, GAPS), SOURCE, out=None),
        PATH,
    ),
    "train_sources_run negative": (sources_of([-1.0, 1.0, 2.0]), RANGE),
    "SourceRequest seed": (lambda _: SourceRequest(seed=-1), "Accepted: a whole number from 0"),
}


@pytest.mark.parametrize("name", CALLS)
def test_bad_argument_gets_a_typed_error(name: str, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("not of bandgap")
    call, accepted = CALLS[name]
    with pytest.raises(bandgap.BandgapError) as error:
        call(tmp_path)
    assert accepted in str(error.value)


def test_objects_and_paths_are_described_and_proposed_for_as_records_are(tmp_path: Path) -> None:
    water = molecule("H2O")
    path = tmp_path / "water.xyz"
    water.write(path)
    config = bandgap.config_for(species=("H", "O"))
    of_records = bandgap.featurize(bandgap.as_records([water, path]), config)
    of_objects = bandgap.featurize([water, path], config)
    np.testing.assert_array_equal(of_objects.features, of_records.features)
    assert np.isfinite(bandgap.featurize(water, config).features).all()
    proposal = bandgap.propose_for([water, path], [7.0, 7.1], has_source=False)
    assert proposal.method


def test_source_is_trained_on_objects_of_ase(tmp_path: Path) -> None:
    crystals = [bulk(symbol, "diamond", a) for symbol in ("C", "Si", "Ge") for a in (5.0, 5.5, 6.0)]
    request = SourceRequest(species=("C", "Ge", "Si"), hidden=(4,), max_epochs=1, device="cpu")
    data = LabelledSet(crystals, [float(k) for k in range(9)])
    folder = bandgap.train_source_run(data, request, out=tmp_path / "source")
    assert bandgap.load_source(folder).card.n_structures == 9
