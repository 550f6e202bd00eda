"""What is broken here is built as in the tests of the training, the workflow and the commands."""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1] / room) for room in ("training", "workflow", "cli")]
