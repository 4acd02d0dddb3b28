"""Scaling and batches: what models consume, cut from a panel that lives on the device."""
