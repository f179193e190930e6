"""Sources of bytes: paths, URLs, options, and traces of every access."""
