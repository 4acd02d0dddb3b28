"""Windows as the inputs of models: scaling, batches and the seasonal profile."""
