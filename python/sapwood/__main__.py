"""``python -m sapwood``: the command line."""

import sys

from sapwood.cli import main

sys.exit(main())
