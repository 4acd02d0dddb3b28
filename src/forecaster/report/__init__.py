"""What people look at: the state of a panel, in words, numbers and pictures."""
