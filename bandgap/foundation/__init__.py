"""What every package uses: errors, progress, config, requests, quantities, the machine, files.

Not here: anything about structures, gaps or models.
"""
