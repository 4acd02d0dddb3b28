"""The public estimators: fit, forecast, save, load."""
