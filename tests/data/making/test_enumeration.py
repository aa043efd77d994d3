"""The stream of molecules: reproducible, distinct, in one of two sets. Needs `datagen`."""

import itertools

import pytest
from rdkit import Chem

from bandgap.datasets.demo import load_demo, read_demo_manifest
from data.making.enumeration import (
    ATOMS,
    ELEMENTS,
    candidate_at,
    candidates,
    item_seed,
    reserved_for_crystals,
)
from data.making.fragments import CORES, LINKERS, SUBSTITUENTS


@pytest.mark.parametrize("purpose", ["molecules", "crystals"])
def test_candidate_depends_only_on_seed_and_index(purpose):
    first = list(itertools.islice(candidates(11, purpose), 20))
    assert [candidate_at(11, purpose, index=c.index) for c in reversed(first)] == first[::-1]
    assert [c.smiles for c in itertools.islice(candidates(12, purpose), 20)] != [
        c.smiles for c in first
    ]


@pytest.mark.parametrize("purpose", ["molecules", "crystals"])
def test_candidates_are_distinct_and_follow_the_rules_of_their_set(purpose):
    drawn = list(itertools.islice(candidates(3, purpose), 80))
    assert len({c.inchikey for c in drawn}) == len(drawn)
    low, high = ATOMS[purpose]
    for c in drawn:
        molecule = Chem.AddHs(Chem.MolFromSmiles(c.smiles))
        assert molecule.GetNumAtoms() == c.n_atoms and low <= c.n_atoms <= high
        assert {a.GetSymbol() for a in molecule.GetAtoms()} <= set(ELEMENTS)
        assert Chem.MolToInchiKey(molecule) == c.inchikey
        assert reserved_for_crystals(c.inchikey) == (purpose == "crystals")


@pytest.mark.parametrize("purpose", ["molecules", "crystals"])
def test_shipped_molecules_are_those_of_the_seed_in_the_manifest(purpose):
    shipped = load_demo(purpose).table["smiles"].tolist()[:40]
    stream = [
        c.smiles for c in itertools.islice(candidates(read_demo_manifest()["seed"], purpose), 60)
    ]
    assert [s for s in stream if s in set(shipped)] == shipped  # Others failed.


def test_item_seed_differs_between_molecules_and_between_seeds():
    seeds = {item_seed(seed, smiles) for seed in (1, 2) for smiles in ("C", "CC", "c1ccccc1")}
    assert len(seeds) == 6 and all(0 <= s < 2**31 for s in seeds)


def test_fragments_are_valid_and_have_only_elements_of_the_set():
    pieces = [s for _, members in CORES.values() for s in members] + [
        s for _, s in (*LINKERS, *SUBSTITUENTS)
    ]
    for smiles in pieces:
        molecule = Chem.MolFromSmiles(smiles)
        assert molecule is not None, smiles
        assert {a.GetSymbol() for a in molecule.GetAtoms()} <= {*ELEMENTS, "*"}
