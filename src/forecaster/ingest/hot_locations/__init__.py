"""Candidate locations, and the selection of those with enough demand (section 3.1.1)."""
