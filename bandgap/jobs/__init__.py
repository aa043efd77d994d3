"""Jobs: the store that the dashboard reads, the worker that computes, and the kinds of jobs.

Not here: what a job computes: that is in `runs` and `sources`.
"""
