"""The shelf: methods that are kept for their papers and for those who study methods.

Nothing that is proposed, on a card or compared by default is here. The packages above import nothing
of it: its methods and posteriors are entry points, as those of other packages are.

Not here: methods that are proposed, or compared by default (`transfer`).
"""
