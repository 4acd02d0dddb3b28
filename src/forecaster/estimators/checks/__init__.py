"""The checks that every estimator passes, and the small panel they run on."""
