"""Where these tests find their networks."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
