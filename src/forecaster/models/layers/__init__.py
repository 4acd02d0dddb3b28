"""Layers over neurons of locations: linear, attention, encoder and decoder, diffusion."""
