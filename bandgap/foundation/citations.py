"""What a result rests on and should be cited, as plain text."""

from collections.abc import Mapping
from typing import Final

METHOD = (
    'BTL-PCP: M. A. Abba, J. P. Williams and B. J. Reich, "A penalized complexity prior for deep '
    'Bayesian transfer learning with application to materials informatics", Annals of Applied '
    "Statistics 17(4), 3241-3256, 2023."
)
MBTR = "MBTR: H. Huo and M. Rupp, Mach. Learn.: Sci. Technol. 3, 045017, 2022."
GFN1_XTB = "GFN1-xTB: S. Grimme et al., J. Chem. Theory Comput. 13, 1989-2009, 2017."
DSCRIBE = "DScribe: L. Himanen et al., Comput. Phys. Commun. 247, 106949, 2020."

COMPARISON = f"As a comparison in {METHOD}"
GAUSSIAN_PROCESSES = (
    "C. E. Rasmussen and C. K. I. Williams, Gaussian Processes for Machine Learning, MIT Press, "
    "2006."
)
JACKKNIFE = (
    'R. F. Barber, E. J. Candes, A. Ramdas and R. J. Tibshirani, "Predictive inference with the '
    'jackknife+", Ann. Stat. 49, 486-507, 2021.'
)
NPTL = (
    'H. Lee, G. Nam, E. Fong and J. Lee, "Enhancing transfer learning with flexible nonparametric '
    'posterior sampling", arXiv:2403.07282, 2024.'
)
SGHMC = (
    'T. Chen, E. B. Fox and C. Guestrin, "Stochastic gradient Hamiltonian Monte Carlo", ICML 2014.'
)


# Blocks of the descriptor by their setting.
OF_BLOCK: Final[Mapping[str, str]] = {
    "composition": "L. Ward et al., npj Comput. Mater. 2, 16028, 2016.",
    "neighbours": "L. Ward et al., Phys. Rev. B 96, 024104, 2017.",
    "soap": "SOAP: A. P. Bartok, R. Kondor and G. Csanyi, Phys. Rev. B 87, 184115, 2013.",
    "bonds": "RDKit: open-source cheminformatics, https://www.rdkit.org.",
    "graph": "MEGNet: C. Chen et al., Chem. Mater. 31, 3564, 2019.",
}
