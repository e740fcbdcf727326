"""What the worked examples give: their files, pictures on the page, and a list in docs."""

from experiments.config.paths import EXAMPLE_FOLDER
from experiments.figures.markup import Source, code, formulas, markdown
from experiments.studies import Contribution
from experiments.studies.examples.examples import EXAMPLES
from experiments.studies.examples.walk import example_path, spelled, write_examples


def _listed(source: Source) -> str:
    """Every worked example with its figure and the kind of its source."""
    rows = []
    for name, example in sorted(EXAMPLES.items()):
        path = example_path(source.shipped.folder, name)
        figure = f"[{formulas(example.title)}]({source.link(path)})"
        kind = example.source.removeprefix("the ").split()[0]
        rows.append((code(spelled(name)), figure, kind))
    return markdown(["EXAMPLE", "figure", "source"], rows)


CONTRIBUTION = Contribution(
    write=write_examples,
    pictures={"examples": f"{EXAMPLE_FOLDER}/*.png"},
    blocks={"examples": _listed},
)
