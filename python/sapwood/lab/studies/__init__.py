"""The studies of the laboratory: events, machines, sites, sweeps, predictions."""
