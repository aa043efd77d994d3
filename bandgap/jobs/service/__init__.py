"""The service: other programs send structures to stored runs over HTTP and get table rows as JSON.

Not here: how predictions are computed, which is in `runs`.
"""
