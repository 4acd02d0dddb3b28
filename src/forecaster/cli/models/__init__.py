"""Commands that train, compare, explain and use models."""
