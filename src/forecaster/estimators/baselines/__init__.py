"""Baselines without a network: naive forecasts, ridge regression, boosted trees, VAR."""
