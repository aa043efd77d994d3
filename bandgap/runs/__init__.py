"""Tasks of command line, worker and notebooks: transfer, predict, compare; and stored runs.

Not here: a method, a page, a queue.
"""
