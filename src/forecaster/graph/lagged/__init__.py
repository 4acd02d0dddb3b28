"""A graph learned for forecasting: whose past tells about whose future (kind `lagged`)."""
