"""Ratios measured in one process run; `python -m benchmarks.NAME [--quick] [--json]`."""
