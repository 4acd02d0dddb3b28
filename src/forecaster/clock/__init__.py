"""Zone, wall-clock lags, hour of week, calendar columns, holidays: one rule, used everywhere."""
