"""What every room stands on: errors, progress, config, quantities, the machine, CSV.

Not here: what knows of structures, gaps or models.
"""
