"""The two densities in the acceptance ratio of Metropolis, exactly.

The draws of a chain show an error in them only when it is large: a proposal density 10 % off passes
the comparison with quadrature.
"""

import numpy as np
from scipy.stats import gamma, multivariate_t

from bandgap.research.vecchia.exact import DenseSites
from bandgap.research.vecchia.metropolis import FREEDOM, log_posterior, log_proposal
from bandgap.research.vecchia.target import Priors, Target
from tests.research.vecchia.samples import TRUTH, dense_normal, field

CENTRE = np.array([0.3, -0.2, -1.5])
ROOT = np.array([[0.6, 0.0, 0.0], [0.2, 0.4, 0.0], [-0.3, 0.1, 0.9]])
POINTS = CENTRE + np.random.default_rng(0).normal(size=(6, 3)) * np.array(
    [[0.1], [0.5], [0.5], [1.0], [2.0], [4.0]]
)


def test_log_proposal_is_that_of_the_multivariate_t_distribution_up_to_a_constant() -> None:
    expected = multivariate_t(CENTRE, ROOT @ ROOT.T, df=FREEDOM).logpdf(POINTS)
    values = np.array([log_proposal(point, CENTRE, ROOT) for point in POINTS])
    np.testing.assert_allclose(np.diff(values), np.diff(expected), rtol=1e-10)


def test_log_posterior_is_dense_likelihood_and_prior_up_to_a_constant() -> None:
    points, rows, y = field(25, 2, TRUTH, seed=3, covariates=2)
    target = Target(DenseSites(points, rows, y))
    beta = np.array([0.5, -0.7])
    priors = Priors()
    laws = [
        gamma(prior.shape, scale=1 / prior.rate)
        for prior in (priors.sigma2, priors.rho, priors.tau2)
    ]
    expected = []
    values = []
    for eta in target.eta(TRUTH) + 0.3 * (POINTS - CENTRE):
        # e: the Jacobian.
        prior = sum(law.logpdf(np.exp(e)) + e for law, e in zip(laws, eta, strict=True))
        expected.append(dense_normal(points, rows, y, target.theta(eta), beta) + prior)
        values.append(
            log_posterior(target, target.terms(eta, np.zeros(2), derivatives=False), eta, beta)
        )
    np.testing.assert_allclose(np.diff(values), np.diff(expected), rtol=1e-8)
