"""Files, directories, keys, and the tables in them under the names that uproot users know."""
