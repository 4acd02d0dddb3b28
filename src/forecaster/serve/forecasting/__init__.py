"""Forecasts of the served run: predicted once per state of the data, in worker threads."""
