"""Random changes of SELFIES, a second baseline for generators of molecules.

A SELFIES string is a sequence of tokens, and each sequence is a molecule of allowed valences.
Reference: M. Krenn et al., Self-referencing embedded strings, Machine Learning: Science and
Technology 1, 045024 (2020). Needs the package selfies, which bandgap itself does not use.
"""

import importlib
import importlib.util
from collections import Counter
from typing import Any, Final

import numpy as np

from bandgap.foundation.errors import ConfigError
from bandgap.foundation.progress import Progress, Update, no_progress
from bandgap.proposals.candidates import KnownMolecules
from bandgap.proposals.chemistry import NotAMoleculeError, graph_of_smiles
from bandgap.proposals.molecules import MOST_HEAVY_ATOMS, MoleculeGraph, Vocabulary

MOST_CHANGES: Final = 3  # of a string, as of the mutations of molecule graphs


def is_installed() -> bool:
    """Return whether the package selfies is installed."""
    return importlib.util.find_spec("selfies") is not None


class SelfiesMutations:
    """Samples molecules by one to three random changes of the SELFIES of a known molecule.

    A change replaces, inserts or removes a token; new tokens are drawn by their number in the
    training set. Strings that are no molecule as those learned from, such as radicals, are drawn
    again. Raises ConfigError where selfies is not installed.
    """

    def __init__(self, known_set: KnownMolecules) -> None:
        if not is_installed():
            raise ConfigError("SELFIES need the package selfies: `pip install selfies`.")
        self._selfies: Any = importlib.import_module("selfies")
        self.vocabulary = Vocabulary.of(known_set.graphs)
        self.training_smiles = known_set.smiles
        self.max_atoms = MOST_HEAVY_ATOMS
        self._strings = [tokens for text in known_set.smiles if (tokens := self._tokens(text))]
        counts = Counter(token for tokens in self._strings for token in tokens)
        self._alphabet = sorted(counts)
        weights = np.array([counts[token] for token in self._alphabet], dtype=np.float64)
        self._weights = weights / weights.sum()

    def sample(
        self, count: int, *, seed: int, progress: Progress = no_progress
    ) -> list[MoleculeGraph]:
        """Return random molecules."""
        rng = np.random.default_rng(seed)
        graphs: list[MoleculeGraph] = []
        while len(graphs) < count:
            tokens = list(self._strings[int(rng.integers(len(self._strings)))])
            for _ in range(int(rng.integers(1, MOST_CHANGES + 1))):
                self._change(tokens, rng)
            try:
                graphs.append(graph_of_smiles(self._selfies.decoder("".join(tokens))))
            except NotAMoleculeError:
                continue
            progress(Update("changing SELFIES", len(graphs), count))
        return graphs

    def _tokens(self, smiles: str) -> list[str]:
        """Return the tokens of a molecule, none where selfies cannot encode it."""
        try:
            return list(self._selfies.split_selfies(self._selfies.encoder(smiles)))
        except self._selfies.EncoderError:
            return []

    def _change(self, tokens: list[str], rng: np.random.Generator) -> None:
        """Replace, insert or remove one token in place."""
        place = int(rng.integers(len(tokens)))
        kind = int(rng.integers(3))
        if kind == 2 and len(tokens) > 1:
            del tokens[place]
            return
        token = self._alphabet[int(rng.choice(len(self._alphabet), p=self._weights))]
        if kind == 1:
            tokens.insert(place, token)
        else:
            tokens[place] = token
