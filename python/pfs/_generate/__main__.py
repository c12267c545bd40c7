"""``python -m pfs._generate`` writes the files that are made of the declarations."""

import sys

from pfs._generate import main

sys.exit(main(sys.argv[1:]))
