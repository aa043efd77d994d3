"""A transfer of a few seconds."""

from tests.transfers import transfer_labelled

FINE = {"training": {"max_epochs": 10, "batch_size": 8}}


def transfer(source_folder, world, out, **more):
    settings = {
        "method": "fine_tune",
        "settings": FINE,
        "seed": 5,
        "device": "cpu",
        "level_of_theory": "made up",
    }
    return transfer_labelled(
        source_folder, world.records, world.gaps_eV, out=out, **(settings | more)
    )
