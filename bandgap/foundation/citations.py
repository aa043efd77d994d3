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

_COMPARED = f"As a comparison in {METHOD}"
_GAUSSIAN_PROCESSES = (
    "C. E. Rasmussen and C. K. I. Williams, Gaussian Processes for Machine Learning, MIT Press, "
    "2006."
)
_JACKKNIFE = (
    'R. F. Barber, E. J. Candes, A. Ramdas and R. J. Tibshirani, "Predictive inference with the '
    'jackknife+", Ann. Stat. 49, 486-507, 2021.'
)
_NPTL = (
    'H. Lee, G. Nam, E. Fong and J. Lee, "Enhancing transfer learning with flexible nonparametric '
    'posterior sampling", arXiv:2403.07282, 2024.'
)
_SGHMC = (
    'T. Chen, E. B. Fox and C. Guestrin, "Stochastic gradient Hamiltonian Monte Carlo", ICML 2014.'
)

OF_METHOD: Final[Mapping[str, tuple[str, ...]]] = {
    "btl_pcp_pe": (METHOD,),
    "feature_gp": (
        _GAUSSIAN_PROCESSES,
        'A. Jacot, F. Gabriel and C. Hongler, "Neural tangent kernel: convergence and '
        'generalization in neural networks", NeurIPS 2018.',
    ),
    "nptl": (_NPTL,),
    "last_layer_horseshoe": (
        METHOD,
        'C. M. Carvalho, N. G. Polson and J. G. Scott, "The horseshoe estimator for sparse '
        'signals", Biometrika 97, 465-480, 2010.',
    ),
    "last_layer_pcp": (METHOD,),
    "last_layer_ridge": (
        _COMPARED,
        'G. H. Golub, M. Heath and G. Wahba, "Generalized cross-validation as a method for '
        'choosing a good ridge parameter", Technometrics 21, 215-223, 1979.',
    ),
    "ensemble": (
        'B. Lakshminarayanan, A. Pritzel and C. Blundell, "Simple and scalable predictive '
        'uncertainty estimation using deep ensembles", NeurIPS 2017.',
    ),
    "fine_tune": (_COMPARED,),
    "freeze": (_COMPARED,),
    "target_only": (_COMPARED,),
    "kernel_ridge": (MBTR,),
    "gaussian_process": (_GAUSSIAN_PROCESSES,),
    "random_forest": ('L. Breiman, "Random forests", Machine Learning 45, 5-32, 2001.',),
    "gradient_boosting": (
        'J. H. Friedman, "Stochastic gradient boosting", Comput. Stat. Data Anal. 38, 367-378, '
        "2002.",
    ),
    "fresh_networks": (
        'I. Loshchilov and F. Hutter, "Decoupled weight decay regularization", ICLR 2019.',
        _JACKKNIFE,
    ),
    "parts_gp": (_GAUSSIAN_PROCESSES,),
    "stacking": (
        'Y. Yao, A. Vehtari, D. Simpson and A. Gelman, "Using stacking to average Bayesian '
        'predictive distributions", Bayesian Anal. 13, 917-1007, 2018.',
        _JACKKNIFE,
    ),
    "bnn": (_COMPARED,),
    "btl_bnn": (_COMPARED,),
    "btl_pcp_sg": (METHOD, _SGHMC),
    "btl_pcp_vi": (METHOD,),
    "btl_vi": ("After Zhou et al. (2020); see Research methods in the documentation of bandgap.",),
    "l2sp": (
        'X. Li, Y. Grandvalet and F. Davoine, "Explicit inductive bias for transfer learning with '
        'convolutional networks", ICML 2018.',
    ),
    "last_layer_ols": (_COMPARED,),
    "mc_dropout": (
        'Y. Gal and Z. Ghahramani, "Dropout as a Bayesian approximation: representing model '
        'uncertainty in deep learning", ICML 2016.',
    ),
    "nptl_head": (_NPTL,),
    "nptl_soup": (
        _NPTL,
        'M. Wortsman et al., "Model soups: averaging weights of multiple fine-tuned models '
        'improves accuracy without increasing inference time", ICML 2022.',
    ),
    "pbp": (
        'J. M. Hernandez-Lobato and R. P. Adams, "Probabilistic backpropagation for scalable '
        'learning of Bayesian neural networks", ICML 2015.',
    ),
    "ptyl": (
        'R. Shwartz-Ziv et al., "Pre-train your loss: easy Bayesian transfer learning with '
        'informative priors", NeurIPS 2022.',
    ),
    "sghmc": (
        _SGHMC,
        'R. Zhang et al., "Cyclical stochastic gradient MCMC for Bayesian deep learning", ICLR '
        "2020.",
    ),
    "two_stage": (_COMPARED,),
    "ulisse_gp": (
        'M. Filippone and R. Engler, "Enabling scalable stochastic gradient-based inference for '
        'Gaussian processes by employing the Unbiased LInear System SolvEr (ULISSE)", ICML 2015.',
    ),
    "vecchia_gp": (
        'A. V. Vecchia, "Estimation and model identification for continuous spatial processes", '
        "J. R. Stat. Soc. B 50, 297-312, 1988.",
        'J. Guinness, "Permutation and grouping methods for sharpening Gaussian process '
        'approximations", Technometrics 60, 415-429, 2018.',
    ),
}

# Blocks of the descriptor by their setting.
OF_BLOCK: Final[Mapping[str, str]] = {
    "composition": "L. Ward et al., npj Comput. Mater. 2, 16028, 2016.",
    "neighbours": "L. Ward et al., Phys. Rev. B 96, 024104, 2017.",
    "soap": "SOAP: A. P. Bartok, R. Kondor and G. Csanyi, Phys. Rev. B 87, 184115, 2013.",
    "bonds": "RDKit: open-source cheminformatics, https://www.rdkit.org.",
    "graph": "MEGNet: C. Chen et al., Chem. Mater. 31, 3564, 2019.",
}
