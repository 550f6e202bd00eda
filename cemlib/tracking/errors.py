"""The one exception of this room."""


class TrackingError(RuntimeError):
    """The MLflow store cannot be used; the message names it and says what to do.

    The result folder is untouched: once the store is well, the same upload can be repeated.
    """
