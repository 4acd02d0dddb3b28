"""Time zones, wall-clock lags, hour of the week, calendar columns and holidays."""
