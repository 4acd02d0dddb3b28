"""Commands that make, extend and examine panels."""
