"""cemlib: measure how well a defence keeps images private in split (edge-cloud) inference."""

__version__ = "0.1.0"
