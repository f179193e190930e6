"""What a file holds, what a run found, and what it cost: as text, JSON, ROOT histograms and an HTML page.

Nothing is imported here, so that listing a file does not wait for what drawing needs.
"""
