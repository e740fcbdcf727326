"""The error of a question to which the theory has no answer."""


class UnknownError(ValueError):
    """No exact value is known for this law; the message is a short reason."""
