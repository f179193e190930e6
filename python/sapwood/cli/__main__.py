"""Lets ``python -m sapwood.cli`` be the command."""

import sys

from sapwood.cli import main

sys.exit(main())
