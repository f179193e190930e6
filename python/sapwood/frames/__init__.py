"""Files as lazy tables of other engines: Arrow datasets, Polars, batches for training."""
