"""Sources that an earlier version wrote open with all their parts and transfer as they did."""

from pathlib import Path

import bandgap
from bandgap.sources.overlap import load_known
from bandgap.sources.sets import open_sources
from bandgap.storage.manifests import read_manifest
from tests.earlier.written import EXTRAS, assert_same_table, labelled, structures


def test_source_of_one_set_opens_with_all_its_parts(earlier: Path) -> None:
    source = bandgap.load_source(earlier / "sources/plain")
    assert source.extras == EXTRAS
    assert (source.card.n_structures, source.card.elements) == (56, ("C", "H", "N", "O"))
    assert source.network.hidden == (8, 4) and source.snapshots is not None and source.snapshots.rank == 3
    known = load_known(earlier / "sources/plain")
    assert known is not None and len(known.structures) == 56


def test_source_of_several_sets_opens_with_every_network_and_output(earlier: Path) -> None:
    stored = open_sources(earlier / "sources/joint")
    assert stored.heads == ("as they are", "moved") and stored.sizes == {"as they are": 28, "moved": 28}
    assert stored.training.steps == 200
    members = stored.load()
    assert [{name: source.extras for name, source in m.items()} for m in members] == [
        {"as they are": EXTRAS, "moved": EXTRAS}
    ] * 2
    descriptor = members[0]["moved"].descriptor
    assert descriptor.roots and descriptor.size and descriptor.neutral


def test_transfer_of_an_earlier_source_with_the_settings_of_an_earlier_run_gives_its_predictions(
    earlier: Path, tmp_path: Path
) -> None:
    wanted = read_manifest(earlier / "runs/last_layer_ridge", kind="run")
    records, gaps = labelled(earlier, "crystals.extxyz")
    out = bandgap.transfer_run(
        earlier / "sources/plain",
        records,
        gaps,
        method=wanted["method"],
        n=wanted["n"],
        n_test=len(wanted["split"]["test"]),
        seed=wanted["seed"],
        level_of_theory=wanted["level_of_theory"],
        settings=wanted["config"],
        device="cpu",
        out=tmp_path / "run",
    )
    made = read_manifest(out, kind="run")
    assert (made["split"], made["data"], made["source"]["overlap"]) == (
        wanted["split"],
        wanted["data"],
        wanted["source"]["overlap"],
    )
    table = bandgap.predict_run(out, structures(earlier, "new.extxyz")).to_csv(level=0.9)
    assert_same_table(table, earlier / "predictions/last_layer_ridge_as_trained.csv", within_eV=0.01)
