"""The demo data, and `making`, which makes them; the wheel has the data alone."""
