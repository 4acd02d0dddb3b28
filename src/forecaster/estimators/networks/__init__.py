"""Networks as estimators: Forecaster, the dense Transformer, DCRNN, networks of others."""
