"""Tasks: the columns that an analysis reads, its results, and the files that it writes."""
