"""The sections of a comparison report, each with its numbers, figures and sentences."""
