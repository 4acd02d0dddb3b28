"""The block-sparse product behind every sparse layer, and its backends."""
