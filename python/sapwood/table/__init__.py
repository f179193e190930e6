"""Tables of entries: what to read of them, how it is read, and what it is returned as."""
