"""What the pretrained model gives: figures, one of them on the page, and the columns of its tables in
docs.
"""

from experiments.figures.markup import Source, code, markdown
from experiments.studies import Contribution
from experiments.studies.smollm2.command import check_model, draw_model
from experiments.studies.smollm2.model_heads import QUANTITIES


def _columns(_: Source) -> str:
    rows = [(code(name), meaning) for name, meaning in QUANTITIES.items()]
    return markdown(["column", "meaning"], rows)


CONTRIBUTION = Contribution(
    write=draw_model,
    check=check_model,
    pictures={"smollm2": "models/smollm2/divisors.png"},
    blocks={"model-columns": _columns},
)
