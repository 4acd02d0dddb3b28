"""A synthetic city with a known precision matrix: demand, trips, weather, holidays, events."""
