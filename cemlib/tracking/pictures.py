"""Pictures where MLflow's own pages look for them: the image panels of a run and of the charts.

`MlflowClient.log_image` does the same with four calls for each picture; here they go with the
other files of a run, and a test compares the names with that function's.
"""

import io
from collections.abc import Mapping
from pathlib import Path

from PIL import Image

from cemlib.files import FileError

LOGGED = "mlflow.loggedImages"  # tag: without it the pages do not look for pictures
SECTION = "pictures"  # of the chart view
# Step 0, as the final scores. Time and uuid tell pictures of one name and step apart: here there
# is never a second one, and the name is to be the same whenever the file is read.
NAME = "images/{section}~{name}+step+0+timestamp+1+00000000-0000-4000-8000-000000000000"


def shown_as_images(files: Mapping[Path, bytes]) -> dict[str, bytes]:
    """The PNG files once more, by the names and in the two formats of MLflow's image panels.

    Args:
        files: Content by path.

    Raises:
        FileError: naming a file that is no picture.
    """
    found = {}
    for path, content in files.items():
        stem = NAME.format(section=SECTION, name=path.stem)
        found[f"{stem}.png"] = content
        found[f"{stem}+compressed.webp"] = _compressed(path, content)
    return found


def _compressed(path: Path, content: bytes) -> bytes:
    buffer = io.BytesIO()
    try:
        with Image.open(io.BytesIO(content)) as picture:
            picture.save(buffer, "WEBP", lossless=True)
    except OSError as error:
        raise FileError(f"{path}: cannot be read as a picture; delete it and rerun it") from error
    return buffer.getvalue()
