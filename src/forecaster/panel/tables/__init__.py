"""From tables to panels: columns, rows, locations and covariates."""
