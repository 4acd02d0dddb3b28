"""Prediction intervals: calibrated on validation windows, then corrected online."""
