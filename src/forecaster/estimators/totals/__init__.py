"""Totals of a forecast over days and over its horizon, with their own intervals."""
