"""Uploading an experiment's result folder to MLflow.

Jobs write files and know nothing of MLflow; one process, `track` or `watch`, reads those files and
brings a store up to date. Neither changes the result folder, so an upload can always be repeated.
mlflow is imported when a store is opened, not before.
"""

from cemlib.tracking.errors import TrackingError
from cemlib.tracking.sync import Summary, track, watch

__all__ = ["Summary", "TrackingError", "track", "watch"]
