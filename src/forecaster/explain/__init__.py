"""Explanations of a network's forecasts: the past steps and locations that carried them."""
