"""The one error a person sees: a sentence that says what is wrong and what to do."""


class RehearsalError(Exception):
    """Something a person can act on; shown without a traceback."""
