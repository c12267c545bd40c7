"""``python -m pfs`` is the command ``pfs``."""

import sys

from pfs.cli import main

sys.exit(main())
