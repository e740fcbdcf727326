"""Words of the title of a diagnosis."""


def quantified(count: int, total: int, noun: str) -> str:
    """The subject of a finding about some of several.

    >>> [quantified(count, 4, "heads") for count in (1, 2, 3, 4)]
    ['Some heads', 'Half the heads', 'Most heads', 'All heads']
    """
    if 2 * count == total:
        return f"Half the {noun}"
    return f"{'All' if count == total else 'Most' if 2 * count > total else 'Some'} {noun}"
