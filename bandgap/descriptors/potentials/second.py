"""Pooled features of a second pretrained potential, as a block with a length scale of its own."""

from dataclasses import replace
from typing import Final

from bandgap.descriptors.potentials import BLOCK as FIRST

BLOCK: Final = replace(FIRST, setting="second_potential")
