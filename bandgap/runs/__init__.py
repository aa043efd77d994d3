"""The whole jobs that shell, worker and notebooks share: transfer, predict, compare; and the folder of a run.

Not here: a method, a page, a queue.
"""
