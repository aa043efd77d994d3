"""The service: other programs ask a stored run over HTTP, and get the rows of the CSV as JSON.

Not here: how a prediction is made: that is in `runs`.
"""
