"""The rule for files that a command writes, in the words of its help.

A command replaces an existing output as soon as the new one is complete. It never replaces an input. `copy`, `mv`,
`mkdir` and the commands with the names of ROOT's tools add to an existing file, or refuse it (`hadd` without ``-f``).
"""

REPLACED = "an existing file is replaced once the new one is complete"
"""The end of the help of each argument that names an output."""
