"""The account of a train: what was read and what it cost."""
