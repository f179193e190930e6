"""What is wrong with the layout of files, and what a remedy gains."""
