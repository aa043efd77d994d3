"""Jobs: the store that the dashboard reads, the worker that computes, and the kinds of work there are."""
