"""Upload the result folder of an experiment to MLflow.

Jobs write files and know nothing of MLflow; one process reads those files and brings a store up to
date. It does not change the result folder, so an upload can always be repeated. MLflow is imported
only when a store is opened.
"""

from cemlib.tracking.store import TrackingError
from cemlib.tracking.sync import Summary, Upload

__all__ = ["Summary", "TrackingError", "Upload"]
