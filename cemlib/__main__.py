"""`python -m cemlib`."""

import sys

from cemlib.cli import main

sys.exit(main())
