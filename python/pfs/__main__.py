"""``python -m pfs`` is the command ``pfs``."""

import sys

from pfs._ui.main import main

sys.exit(main())
