"""The dependency graph: covariance, graphical lasso, conditional correlation."""
