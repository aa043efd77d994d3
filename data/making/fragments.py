"""Building blocks of the demo molecules as SMILES: ring cores, linkers and substituents.

Each core is a complete molecule; its sites are carbon atoms with hydrogen. Open ends of linkers and
substituents are the dummy atoms `[*:1]` and `[*:2]`.
"""

from typing import Final

# Probabilities of the families of cores: (share, cores). Benzene is listed twice, because it is the
# most frequent core of organic crystals.
CORES: Final[dict[str, tuple[float, tuple[str, ...]]]] = {
    "benzenoid": (0.24, (
        "c1ccccc1", "c1ccccc1", "c1ccc2ccccc2c1", "c1ccc2cc3ccccc3cc2c1", "c1ccc2c(c1)ccc1ccccc12",
        "c1cc2ccc3cccc4ccc(c1)c2c34", "c1ccc2cc3cc4ccccc4cc3cc2c1", "C1c2ccccc2-c2ccccc12",
        "c1ccc2c(c1)-c1ccccc1-2", "c1ccc2cccc-2cc1", "C1=Cc2cccc3cccc1c23",
        "c1ccc2c(c1)-c1cccc3cccc-2c13", "C1Cc2ccccc2C1", "c1ccc2c(c1)c1ccccc1c1ccccc21",
        "c1ccc2c(c1)ccc1c3ccccc3ccc21",
    )),
    "five_ring": (0.17, (
        "c1cc[nH]c1", "c1ccoc1", "c1ccsc1", "c1ccsc1", "c1c[nH]cn1", "c1cn[nH]c1", "c1cocn1",
        "c1conc1", "c1cscn1", "c1csnc1", "c1nnco1", "c1nncs1", "c1nc[nH]n1", "c1ncon1", "c1ncsn1",
        "c1csnn1", "Cn1cccc1", "Cn1ccnc1",
    )),
    "six_ring": (0.13, (
        "c1ccncc1", "c1ccncc1", "c1cncnc1", "c1cnccn1", "c1ccnnc1", "c1ncncn1", "c1nncnn1",
        "c1cnncn1",
    )),
    "fused_hetero": (0.19, (
        "c1ccc2[nH]ccc2c1", "c1ccc2occc2c1", "c1ccc2sccc2c1", "c1ccc2[nH]cnc2c1", "c1ccc2ocnc2c1",
        "c1ccc2scnc2c1", "c1ccc2ncccc2c1", "c1ccc2cnccc2c1", "c1ccc2nccnc2c1", "c1ccc2ncncc2c1",
        "c1ccc2cnncc2c1", "c1cnc2cccnc2c1", "c1ccc2[nH]ncc2c1", "c1ccc2nsnc2c1", "c1ccc2nonc2c1",
        "c1ccc2[nH]nnc2c1", "c1ccc2c(c1)[nH]c1ccccc12", "c1ccc2c(c1)oc1ccccc12",
        "c1ccc2c(c1)sc1ccccc12", "c1ccc2nc3ccccc3cc2c1", "c1ccc2nc3ccccc3nc2c1",
        "c1ccc2c(c1)Nc1ccccc1S2", "c1ccc2c(c1)Nc1ccccc1O2", "c1cc2sccc2s1", "c1cc2cc3sccc3cc2s1",
        "c1ccn2ccnc2c1", "c1ccn2cccc2c1", "c1cnc2cscc2n1", "c1cnc2nccnc2n1", "c1ncc2[nH]cnc2n1",
        "c1cnc2c(c1)ccc1cccnc12", "C1=CSC(=C2SC=CS2)S1", "c1cc2nsnc2s1", "c1csc2c1OCCO2",
    )),
    "carbonyl": (0.12, (
        "O=C1C=CC(=O)C=C1", "O=C1C=CC(=O)c2ccccc12", "O=C1c2ccccc2C(=O)c2ccccc21",
        "O=C1c2ccccc2-c2ccccc21", "O=c1c2ccccc2oc2ccccc12", "O=c1c2ccccc2sc2ccccc12",
        "O=c1c2ccccc2[nH]c2ccccc12", "O=c1ccc2ccccc2o1", "O=c1ccoc2ccccc12", "O=C1Nc2ccccc2C1=O",
        "O=C1NC(=O)c2ccccc12", "O=C1C=CC(=O)N1", "O=C1OC(=O)c2ccccc12", "O=C1OCc2ccccc12",
        "O=C1NC(=O)c2cccc3cccc1c23", "O=c1cc[nH]c2ccccc12", "O=c1cccc[nH]1", "O=c1cc[nH]c(=O)[nH]1",
        "O=c1cccccc1", "O=c1ccocc1", "O=C1C=CCC1", "O=C1C=CCCC1", "O=C1CCC(=O)N1", "O=C1CCCO1",
        "O=C1CCc2ccccc12", "N#CC(C#N)=C1C=CC(=C(C#N)C#N)C=C1",
        "O=C1/C(=C2\\Nc3ccccc3C2=O)Nc2ccccc12", "O=C1CC(=O)c2ccccc12",
    )),
    "aliphatic": (0.15, (
        "C1CCCCC1", "C1CCCC1", "C1CC1", "C1CCNCC1", "C1COCCN1", "C1CCNC1", "C1CCOC1", "C1COCCO1",
        "C1CCSC1", "C1C2CC3CC1CC(C2)C3", "C1CC2CCC1C2", "C1CC2CCC1CC2", "C1=CCCCC1", "C1=CC2CCC1C2",
        "C1=CCC=CC1", "O=C1CCCCC1",
    )),
}  # fmt: skip

# Linkers with their shares; the single bond is `[*:1][*:2]`.
LINKERS: Final[tuple[tuple[float, str], ...]] = (
    (5.0, "[*:1][*:2]"), (3.0, "[*:1]/C=C/[*:2]"), (2.5, "[*:1]C#C[*:2]"), (1.0, "[*:1]/N=N/[*:2]"),
    (1.2, "[*:1]/C=N/[*:2]"), (2.5, "[*:1]C(=O)N[*:2]"), (1.6, "[*:1]C(=O)O[*:2]"),
    (1.2, "[*:1]C(=O)[*:2]"), (1.4, "[*:1]O[*:2]"), (0.8, "[*:1]S[*:2]"), (0.8, "[*:1]N[*:2]"),
    (1.2, "[*:1]C[*:2]"), (1.2, "[*:1]CC[*:2]"), (0.8, "[*:1]S(=O)(=O)[*:2]"),
    (1.2, "[*:1]CO[*:2]"), (0.8, "[*:1]C#CC#C[*:2]"), (0.5, "[*:1]/C=C/C=C/[*:2]"),
    (1.0, "[*:1]C(=O)/C=C/[*:2]"), (0.4, "[*:1]/C=N/N=C/[*:2]"), (0.6, "[*:1]/C=N/N[*:2]"),
    (0.5, "[*:1]NC(=O)N[*:2]"), (0.4, "[*:1]C(=S)N[*:2]"), (0.2, "[*:1]C(=O)C(=O)[*:2]"),
    (0.3, "[*:1]S(=O)(=O)N[*:2]"), (0.4, "[*:1]/C=C(\\C#N)[*:2]"),
)  # fmt: skip

# Substituents with their shares.
SUBSTITUENTS: Final[tuple[tuple[float, str], ...]] = (
    (4.0, "[*:1]F"), (3.0, "[*:1]Cl"), (4.0, "[*:1]C"), (2.5, "[*:1]O"), (3.0, "[*:1]OC"),
    (2.5, "[*:1]N"), (0.8, "[*:1]NC"), (1.5, "[*:1]N(C)C"), (3.0, "[*:1]C#N"),
    (1.2, "[*:1][N+](=O)[O-]"), (0.8, "[*:1]C=O"), (1.2, "[*:1]C(C)=O"), (1.2, "[*:1]C(=O)O"),
    (1.0, "[*:1]C(N)=O"), (0.6, "[*:1]C(=O)OC"), (0.8, "[*:1]S"), (0.8, "[*:1]SC"),
    (1.5, "[*:1]C(F)(F)F"), (1.0, "[*:1]CC"), (0.6, "[*:1]C(C)C"), (0.5, "[*:1]C(C)(C)C"),
    (0.8, "[*:1]C=C"), (0.8, "[*:1]C#C"), (0.5, "[*:1]OC(F)(F)F"), (0.5, "[*:1]S(C)(=O)=O"),
    (0.6, "[*:1]NC(C)=O"), (0.2, "[*:1]C=C(C#N)C#N"), (0.4, "[*:1]/C=C/C#N"), (0.3, "[*:1]CO"),
    (0.3, "[*:1]CCl"), (0.2, "[*:1]S(N)(=O)=O"), (0.2, "[*:1]N=C=O"), (0.2, "[*:1]N=C=S"),
)  # fmt: skip
