"""Forecasts over HTTP, fed with live observations, and a page to look at them."""
