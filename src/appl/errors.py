"""The errors a user can cause. Each message is one line: what, where, what to do."""


class ApplError(Exception):
    """A mistake in the input, not in the program: printed without a traceback."""


class SettingsError(ApplError):
    """A settings key or value that cannot be used."""


class TaskError(ApplError):
    """A few-shot task that cannot be solved as given."""


class WeightsError(ApplError):
    """A weights file that is missing, damaged or not what it should be."""


class DataError(ApplError):
    """An image, folder or data set that cannot be read."""


class UnknownNameError(ApplError):
    """A name that is in no registry."""
