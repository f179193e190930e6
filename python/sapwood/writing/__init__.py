"""Writing: files, directories, trees, and Python objects as ROOT objects."""
