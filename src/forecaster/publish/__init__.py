"""Writing artifacts to disk so that a crash leaves no half file, and reading them back."""
