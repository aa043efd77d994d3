"""Parts of the page Guide."""
