"""sapwood."""
