"""The dataset of a train: its files, their catalogue, and friends by index."""
