"""Sparse regressions of each location on a few candidates, for graphs of many locations."""
