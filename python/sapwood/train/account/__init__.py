"""The account of a train: its input and its cost."""
