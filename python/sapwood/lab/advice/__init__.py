"""Find problems in the layout of files, and measure the gain of remedies."""
