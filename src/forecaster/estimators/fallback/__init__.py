"""Simple models that a run serves where its own model is worse."""
