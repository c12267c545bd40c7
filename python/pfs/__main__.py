"""``python -m pfs`` is the command ``pfs``."""

import sys

from pfs._ui.cli.commands import main

sys.exit(main())
