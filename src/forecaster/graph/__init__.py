"""Which locations depend on each other: covariance, graphical lasso, conditional correlation."""
