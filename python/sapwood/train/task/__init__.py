"""Tasks: what an analysis reads, fills and writes."""
