"""Networks as estimators: Forecaster, the dense Transformer, DCRNN, STID."""
