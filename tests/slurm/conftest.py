"""What runs on the cluster is built as in the tests of the workflow and of faults."""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1] / room) for room in ("workflow", "faults")]
