"""How artifacts reach the disk and are read back."""
