"""Atomic writing of artifacts, and verified reading."""
