"""The panel: values of steps × locations with their covariates; null is missing."""
