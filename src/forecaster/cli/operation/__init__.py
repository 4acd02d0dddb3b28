"""Commands that keep a service and its runs going."""
