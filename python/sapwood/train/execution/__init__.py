"""The execution of a train: plan, executors, workers, checkpoints."""
