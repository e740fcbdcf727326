"""README.md and docs/: generated parts of pages, and notebooks, run in clean kernels and kept free of what varies.

Generated text stands between `<!-- begin NAME -->` and `<!-- end NAME -->`; it follows from the files in results/.
"""

import base64
import io
import json
import os
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from PIL import Image

from experiments.folders import HOME
from experiments.harness.files import write_atomically
from experiments.harness.problems import Problem

DOCUMENTS = Path("docs")
_SECONDS_PER_CELL = 300
_METADATA = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


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


class NotebookError(Problem):
    """A notebook that does not run, or that warns; the message names its cell."""


def run_notebooks(folder: Path = DOCUMENTS) -> None:
    """Run every notebook of a folder in a clean kernel, and write those whose outputs changed.

    Raises:
        NotebookError: a cell raises, prints to standard error or takes too long; its notebook is not written.
    """
    for path in sorted(folder.glob("*.ipynb")):
        content = notebook_bytes(executed(path))
        if content == path.read_bytes():
            print(f"{path}: up to date")
        else:
            write_atomically(path, content)
            print(f"wrote {path}")


def executed(path: Path) -> dict[str, Any]:
    """A notebook with the outputs of a run in its folder, normalized; the file stays as it is.

    The user's settings of IPython and Matplotlib do not count.

    Raises:
        NotebookError: a cell raises, prints to standard error or takes too long.
    """
    import nbformat
    from nbclient import NotebookClient
    from nbclient.exceptions import CellControlSignal, DeadKernelError

    notebook = nbformat.read(path, as_version=4)
    with TemporaryDirectory() as home:
        (Path(home) / "matplotlibrc").touch()
        ours = {"IPYTHONDIR": home, "MATPLOTLIBRC": f"{home}/matplotlibrc", "OPENBLAS_NUM_THREADS": "1"}
        environment = {name: value for name, value in os.environ.items() if name != "MPLBACKEND"} | ours
        resources = {"metadata": {"path": str(path.parent)}}
        client = NotebookClient(
            notebook, timeout=_SECONDS_PER_CELL, record_timing=False, coalesce_streams=True, resources=resources
        )
        try:
            # Not by `execute`, which takes Ctrl-C and SIGTERM away from the command.
            with client.setup_kernel(env=environment, cleanup_kc=True):
                for index, cell in enumerate(notebook["cells"]):
                    client.execute_cell(cell, index)
        except (CellControlSignal, DeadKernelError) as error:
            raise NotebookError(f"{path}: {_first_failure(notebook) or error}") from None
    if failure := _first_failure(notebook):
        raise NotebookError(f"{path}: {failure}")
    return normalized(json.loads(nbformat.writes(notebook)))


def _first_failure(notebook: Mapping[str, Any]) -> str:
    """The first cell that raised or printed to standard error, and its message; empty if none did."""
    for cell in notebook["cells"]:
        for output in cell.get("outputs", ()):
            if output["output_type"] == "error":
                return f"cell {cell['id']}: expected a cell that runs, got {output['ename']}: {output['evalue']}"
            if output.get("name") == "stderr":
                return f"cell {cell['id']}: expected nothing on standard error, got {output['text'].strip()}"
    return ""


def normalized(notebook: Mapping[str, Any]) -> dict[str, Any]:
    """A notebook of format 4.5 without execution counts, times, versions and the state of an editor."""
    cells = []
    for cell in notebook["cells"]:
        kept = {name: cell[name] for name in ("cell_type", "id", "source")} | {"metadata": {}}
        if cell["cell_type"] == "code":
            kept |= {"execution_count": None, "outputs": [_normalized_output(output) for output in cell["outputs"]]}
        cells.append(kept)
    return {"cells": cells, "metadata": _METADATA, "nbformat": 4, "nbformat_minor": 5}


def _normalized_output(output: Mapping[str, Any]) -> dict[str, Any]:
    kept = {name: output[name] for name in ("output_type", "name", "text", "data") if name in output}
    if "data" in kept:
        kept |= {"metadata": {}, "data": {kind: _small(kind, data) for kind, data in kept["data"].items()}}
    return kept | ({"execution_count": None} if output["output_type"] == "execute_result" else {})


def _small(kind: str, data: Any) -> Any:
    """A PNG with at most 256 colours, which takes a third of the bytes; any other data as it is."""
    if kind != "image/png":
        return data
    image = Image.open(io.BytesIO(base64.b64decode(data)))
    if image.mode == "P":
        return data
    content = io.BytesIO()
    # This method keeps also the colours of thin lines: none is off by more than 2%.
    fewer = image.convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    fewer.save(content, "PNG", optimize=True)
    return base64.b64encode(content.getvalue()).decode()


def notebook_bytes(notebook: Mapping[str, Any]) -> bytes:
    """The file of a notebook, in the layout in which Jupyter saves it."""
    return (json.dumps(notebook, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()
