"""Values that are implausible, and what a forecast says of them."""
