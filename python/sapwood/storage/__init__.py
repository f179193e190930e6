"""Where bytes come from: paths, URLs, options, and traces of every access."""
