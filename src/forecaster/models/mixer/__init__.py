"""The network of the presets `quick` and `best`, and its parts."""
