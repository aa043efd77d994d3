"""The demo data, and the package `making`, which generates them. The wheel has only the data."""
