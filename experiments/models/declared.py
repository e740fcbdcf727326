"""The pretrained models of `make model`, each in one declaration."""

from experiments.models import language, minilm, smollm2
from experiments.models.model import Case, Model

_RULES = ("d_k^1/2", "unscaled", "d_k^1")
_TEXTS = ("prose", "code", "shuffled")
_LENGTH = 128

MINILM = Model(
    name="minilm",
    title="all-MiniLM-L6-v2",
    package=minilm.PACKAGE,
    licence="Apache-2.0",
    mask="none",
    cases=(
        *(Case(_LENGTH, text=text, scaling=rule) for text in _TEXTS for rule in _RULES),
        *(Case(_LENGTH, "initial", scaling=rule) for rule in _RULES),
        *(
            Case(_LENGTH, text=text, keys=keys)
            for text in _TEXTS
            for keys in ("centred", "content")
        ),
        *(Case(n) for n in (16, 32, 64, 256, 512)),
    ),
    load=minilm.pretrained,
)

SMOLLM2 = Model(
    name="smollm2",
    title="SmolLM2-135M-Instruct",
    package=smollm2.PACKAGE,
    licence="Apache-2.0",
    mask="causal",
    cases=(
        *(Case(language.LENGTH, text=text) for text in language.TEXTS),
        Case(language.LENGTH, "initial"),
    ),
    load=smollm2.pretrained,
    further={
        ("by-divisor.csv", "by-divisor-layer.csv", "by-divisor-head.csv"): language.by_divisor,
        ("by-text.csv", "smallest-loss.csv"): language.by_text,
        ("by-length.csv", "by-position.csv"): language.by_length,
    },
)

MODELS = (MINILM, SMOLLM2)
