"""Parts of the page Result."""
