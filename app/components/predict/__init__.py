"""Parts of the page Predict."""
