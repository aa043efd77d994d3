"""The three problems of Wang, Deng and Lin (2021), corrected: a bent density, many predictors, an elliptic surrogate.

Not here: a page or a command.
"""
