"""Hours × locations, null = missing, with what is known about the places and the hours."""
