"""The report about drift since a run was trained."""
