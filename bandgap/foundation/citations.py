"""What a result rests on and should be cited, as plain text."""

METHOD = (
    'BTL-PCP: M. A. Abba, J. P. Williams and B. J. Reich, "A penalized complexity prior for deep '
    'Bayesian transfer learning with application to materials informatics", Annals of Applied '
    "Statistics 17(4), 3241-3256, 2023."
)
MBTR = "MBTR: H. Huo and M. Rupp, Mach. Learn.: Sci. Technol. 3, 045017, 2022."
DSCRIBE = "DScribe: L. Himanen et al., Comput. Phys. Commun. 247, 106949, 2020."
DATA = "The data that the source model and the transfer learned from."
