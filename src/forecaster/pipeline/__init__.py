"""The whole path: from a recipe to a trained run, a comparison, and the built-in city with all."""
