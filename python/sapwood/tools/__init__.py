"""Everyday tools: compare files, print entries, draw expressions, convert formats. The command line stands on these."""
