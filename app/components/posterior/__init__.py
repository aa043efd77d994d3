"""Parts of the page Posterior."""
