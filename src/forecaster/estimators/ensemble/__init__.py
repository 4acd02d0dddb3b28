"""An ensemble: several models whose forecasts are averaged with weights."""
