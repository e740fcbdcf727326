"""The generated parts of README.md and of the pages in docs/, and the schema of the config.

The files in results/ and the declarations in the code come in; text between `<!-- begin NAME -->` and
`<!-- end NAME -->` goes out.
"""

from pathlib import Path

from experiments.folders import HOME
from experiments.harness.files import write_atomically

DOCUMENTS = Path("docs")


def rewrite_pages() -> None:
    """Rewrite the generated parts of the pages of the current folder from results/, and write the schema."""
    from experiments.page.blocks import rewrite
    from experiments.steps.schema import write_schema

    write_schema()
    for path, text in rewrite(read_pages(), HOME).items():
        write_atomically(path, text.encode())


def read_pages() -> dict[Path, str]:
    """README.md and the pages in docs/, by path."""
    return {path: path.read_text(encoding="utf-8") for path in (Path("README.md"), *sorted(DOCUMENTS.glob("*.md")))}
