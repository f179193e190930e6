"""Files, directories, keys, and tables, under the names that uproot users know."""
