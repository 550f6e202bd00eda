"""The one error of a configuration."""


class ConfigError(ValueError):
    """The configuration cannot be used; one line per fault."""
