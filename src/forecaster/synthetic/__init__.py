"""A seeded city whose precision matrix is known: demand, trips, weather, holidays, events."""
