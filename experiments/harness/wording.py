"""Wording that messages share."""


def counted(number: int, noun: str) -> str:
    """A number with its noun, in the singular or with an s.

    >>> counted(1, "cell"), counted(2, "cell")
    ('1 cell', '2 cells')
    """
    return f"{number} {noun}{'' if number == 1 else 's'}"
