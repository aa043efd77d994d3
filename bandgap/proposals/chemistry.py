"""What RDKit does here: molecules from structures, SMILES, 3D geometries."""

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from bandgap.descriptors.rdkit_package import rdkit_module
from bandgap.proposals.molecules import AtomLabel, MoleculeGraph

if TYPE_CHECKING:
    from ase import Atoms

MOST_EMBEDDINGS: Final = 5  # attempts at a 3D geometry
_MOST_BOND_ITERATIONS: Final = 1_000  # of the search for bond orders
_FORCE_FIELD_STEPS: Final = 2_000
_SEEDS: Final = 2**31  # RDKit takes seeds below this


class NotAMoleculeError(Exception):
    """A structure or graph is no molecule that the network can learn; the text says why."""


def graph_of_atoms(atoms: "Atoms") -> MoleculeGraph:
    """Return the graph of an isolated neutral molecule, with bonds perceived from its geometry.

    Raises NotAMoleculeError for crystals, for several fragments, radicals, net charges, charged
    carbon and single atoms, and where no bond orders agree with the geometry.
    """
    if atoms.pbc.any():
        raise NotAMoleculeError("is periodic")
    chem = rdkit_module()
    bonds = rdkit_module("Chem.rdDetermineBonds")
    lines = [
        f"{symbol} {x:.6f} {y:.6f} {z:.6f}"
        for symbol, (x, y, z) in zip(atoms.symbols, atoms.positions, strict=True)
    ]
    with rdkit_module("rdBase").BlockLogs():
        molecule = chem.MolFromXYZBlock("\n".join([str(len(lines)), "", *lines, ""]))
        if molecule is None:
            raise NotAMoleculeError("has atoms or positions that RDKit cannot read")
        try:
            bonds.DetermineBonds(
                molecule, charge=0, embedChiral=False, maxIterations=_MOST_BOND_ITERATIONS
            )
        except (RuntimeError, ValueError):
            raise NotAMoleculeError("has no bond orders that agree with its geometry") from None
    return _graph_of_molecule(molecule)


def graph_of_smiles(smiles: str) -> MoleculeGraph:
    """Return the graph of a SMILES; raise NotAMoleculeError as `graph_of_atoms` does."""
    with rdkit_module("rdBase").BlockLogs():
        molecule = rdkit_module().MolFromSmiles(smiles)
    if molecule is None:
        raise NotAMoleculeError("is no SMILES")
    return _graph_of_molecule(molecule)


def _graph_of_molecule(molecule: Any) -> MoleculeGraph:
    chem = rdkit_module()
    with rdkit_module("rdBase").BlockLogs():
        try:
            molecule = chem.RemoveHs(molecule)
            chem.Kekulize(molecule, clearAromaticFlags=True)
        except (RuntimeError, ValueError):
            raise NotAMoleculeError("is not sanitised by RDKit") from None
    if len(chem.GetMolFrags(molecule)) != 1:
        raise NotAMoleculeError("has several fragments")
    if molecule.GetNumAtoms() < 2:
        raise NotAMoleculeError("has less than two heavy atoms")
    labels = []
    for atom in molecule.GetAtoms():
        if atom.GetNumRadicalElectrons() or atom.GetAtomicNum() <= 1:
            raise NotAMoleculeError("is a radical, or has a hydrogen between heavy atoms")
        orders = sum(bond.GetBondTypeAsDouble() for bond in atom.GetBonds())
        valence = int(orders) + atom.GetTotalNumHs()
        labels.append(AtomLabel(atom.GetSymbol(), atom.GetFormalCharge(), valence))
    if any(label.symbol == "C" and label.charge for label in labels):
        # Mostly bond orders that were perceived wrongly; isonitriles are lost too.
        raise NotAMoleculeError("has a charged carbon atom")
    if sum(label.charge for label in labels):
        raise NotAMoleculeError("has a net charge")
    edges = [(bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()) for bond in molecule.GetBonds()]
    bond_orders = [int(bond.GetBondTypeAsDouble()) for bond in molecule.GetBonds()]
    if max(bond_orders) > 3:
        raise NotAMoleculeError("has a bond of order 4")
    return MoleculeGraph(tuple(labels), np.array(edges), np.array(bond_orders))


def smiles_of_graph(graph: MoleculeGraph) -> str | None:
    """Return the canonical SMILES without stereochemistry, None if RDKit does not sanitise it.

    Free valences are filled with hydrogens.
    """
    chem = rdkit_module()
    molecule = chem.RWMol()
    free = graph.free_valences
    for label, n_hydrogens in zip(graph.labels, free.tolist(), strict=True):
        atom = chem.Atom(label.symbol)
        atom.SetFormalCharge(label.charge)
        atom.SetNoImplicit(True)
        atom.SetNumExplicitHs(n_hydrogens)
        molecule.AddAtom(atom)
    types = (None, chem.BondType.SINGLE, chem.BondType.DOUBLE, chem.BondType.TRIPLE)
    for (first, second), order in zip(graph.edges.tolist(), graph.orders.tolist(), strict=True):
        molecule.AddBond(first, second, types[order])
    with rdkit_module("rdBase").BlockLogs():
        try:
            chem.SanitizeMol(molecule)
        except (RuntimeError, ValueError):
            return None
        smiles: str = chem.MolToSmiles(molecule, isomericSmiles=False)
        # The text of a molecule may be read as another one; only what can be read back is used.
        again = chem.MolFromSmiles(smiles)
    return None if again is None else str(chem.MolToSmiles(again, isomericSmiles=False))


def embedded_atoms(smiles: str, *, seed: int) -> "Atoms | None":
    """Return a molecule with hydrogens and a 3D geometry, None if there is none.

    ETKDGv3 with up to `MOST_EMBEDDINGS` seeds, then MMFF94, or UFF for elements without parameters.
    """
    from ase import Atoms

    chem = rdkit_module()
    geometry = rdkit_module("Chem.rdDistGeom")
    fields = rdkit_module("Chem.rdForceFieldHelpers")
    with rdkit_module("rdBase").BlockLogs():
        molecule = chem.AddHs(chem.MolFromSmiles(smiles))
        settings = geometry.ETKDGv3()
        settings.maxIterations = 20
        for attempt in range(MOST_EMBEDDINGS):
            settings.randomSeed = (seed + attempt) % _SEEDS
            settings.useRandomCoords = attempt > 0
            if geometry.EmbedMolecule(molecule, settings) == 0:
                break
        else:
            return None
        if fields.MMFFHasAllMoleculeParams(molecule):
            fields.MMFFOptimizeMolecule(molecule, maxIters=_FORCE_FIELD_STEPS)
        elif fields.UFFHasAllMoleculeParams(molecule):
            fields.UFFOptimizeMolecule(molecule, maxIters=_FORCE_FIELD_STEPS)
        else:
            return None
    positions = np.asarray(molecule.GetConformer().GetPositions(), dtype=np.float64)
    symbols = [atom.GetSymbol() for atom in molecule.GetAtoms()]
    return Atoms(symbols, positions)  # type: ignore[no-untyped-call]


def drawing_svg(smiles: str) -> str:
    """Return the structural formula of a molecule as SVG, on white."""
    drawer = rdkit_module("Chem.Draw.rdMolDraw2D").MolDraw2DSVG(260, 180)
    drawer.DrawMolecule(rdkit_module().MolFromSmiles(smiles))
    drawer.FinishDrawing()
    return str(drawer.GetDrawingText())
