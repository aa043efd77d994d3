"""Errors that the library raises; every message says what, where, what is accepted and what to do."""


class BandgapError(Exception):
    """Base of every error that a user of the library can cause or meet.

    The command line and the dashboard catch exactly this class and show its text without a traceback.
    """


class InputError(BandgapError):
    """A file, a label, a column or an argument that cannot be used as it is."""


class ConfigError(BandgapError):
    """A setting outside what is accepted."""


class BudgetError(BandgapError):
    """A computation that would need more memory than the stated budget, refused before it starts."""


class ArtifactError(BandgapError):
    """A stored model or run that is damaged, of another version, or that fails its self-check."""


class Cancelled(BandgapError):
    """The person who started the computation asked for its end."""
