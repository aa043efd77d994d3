"""How good predictions are: metrics, calibration, held-out rows, paired comparison, calibrators.

Not here: torch; a fit of a model.
"""
