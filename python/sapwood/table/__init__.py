"""Tables of entries: queries, scans, and the libraries of the results."""
