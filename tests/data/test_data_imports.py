"""Jobs that read prepared data start with torch alone."""

import subprocess
import sys


def test_reading_and_batching_import_no_image_library() -> None:
    code = (
        "import sys, cemlib.data.augment, cemlib.data.batches, cemlib.data.prepared;"
        "print([m for m in ('PIL', 'sklearn', 'torchvision', 'scipy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
