"""Parts of the page Source models."""
