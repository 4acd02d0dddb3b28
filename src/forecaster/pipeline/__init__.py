"""The whole path from a recipe to a trained run, to a comparison of models, and the demo."""
