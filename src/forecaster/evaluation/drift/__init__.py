"""Whether the world is still the one that a run has learned."""
