"""The shelf: methods that are kept for their papers and for those who study methods.

No proposal, card or comparison by default uses them. No other package imports them: its methods and
posteriors are entry points, as those of other packages are.

Not here: methods that are proposed, or compared by default (`transfer`).
"""
