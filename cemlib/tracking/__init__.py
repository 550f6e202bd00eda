"""Upload the result folder of an experiment to MLflow.

Jobs know nothing of MLflow: one process reads the files that they wrote, and brings a store up to
date. MLflow is imported only when a store is opened.
"""

from cemlib.tracking.store import TrackingError
from cemlib.tracking.sync import Summary, Upload

__all__ = ["Summary", "TrackingError", "Upload"]
