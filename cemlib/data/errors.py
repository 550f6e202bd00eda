"""The one error of this room."""


class DataError(ValueError):
    """The images cannot be used; the message names the place, what was found and what to do."""
