"""The generated parts of README.md and of the pages in docs/, and the schema of the config.

The files in results/ and the declarations in the code come in; text between `<!-- begin NAME -->` and
`<!-- end NAME -->` goes out.
"""

from collections.abc import Mapping
from pathlib import Path

from experiments.folders import HOME
from experiments.harness.config import load_config
from experiments.harness.files import write_atomically
from experiments.harness.paths import STORED_CONFIG

DOCUMENTS = Path("docs")


def rewrite_pages() -> None:
    """Rewrite the generated parts of README.md and docs/ from results/, and write the schema.

    The pages are those of the current folder. The numbers come from existing results: no sweep is measured.
    """
    from experiments.steps.schema import write_schema

    write_schema()
    for path, text in generated(read_pages(), HOME).items():
        write_atomically(path, text.encode())


def read_pages() -> dict[Path, str]:
    """README.md and the pages in docs/, by path."""
    return {path: path.read_text(encoding="utf-8") for path in (Path("README.md"), *sorted(DOCUMENTS.glob("*.md")))}


def generated(pages: Mapping[Path, str], results: Path) -> dict[Path, str]:
    """Pages with their generated parts filled from the files in a results folder; pure apart from reading.

    Args:
        pages: text of each page by its path.
        results: the folder of the tables; the sweeps are those of the config that it stores.
    """
    from experiments.page.blocks import rewrite

    config = load_config(results / STORED_CONFIG)
    return rewrite(pages, config, results)
