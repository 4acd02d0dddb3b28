"""Downloads of monthly trip files that can be resumed."""
