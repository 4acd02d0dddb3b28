"""Networks as pure computation: the graph Transformer and its dense counterpart."""
