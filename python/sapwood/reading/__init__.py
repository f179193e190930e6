"""Reading ROOT files: directories, trees, branches, and many files as one."""
