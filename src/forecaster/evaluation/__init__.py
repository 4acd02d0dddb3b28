"""Models on the same test windows, side by side."""
