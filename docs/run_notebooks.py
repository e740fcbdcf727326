"""Run the notebooks of this folder in clean kernels, and write those whose outputs changed: make
notebooks.

The files are free of what varies: execution counts, times, versions and the state of an editor.
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

_SECONDS_PER_CELL = 300
_METADATA = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def main(folder: Path = Path(__file__).parent) -> None:
    """Run every notebook of a folder; SystemExit, with the cell, if one raises or prints to
    standard error.
    """
    for path in sorted(folder.glob("*.ipynb")):
        content = notebook_bytes(executed(path))
        print(f"{path.name}: {'up to date' if content == path.read_bytes() else 'written'}")
        path.write_bytes(content)


def executed(path: Path) -> dict[str, Any]:
    """A notebook with the outputs of a run in its folder, normalized; the file stays as it is.

    The user's settings of IPython and Matplotlib do not count.

    Raises:
        SystemExit: a cell raises, prints to standard error or takes too long.
    """
    import nbformat
    from nbclient import NotebookClient
    from nbclient.exceptions import CellControlSignal, DeadKernelError

    notebook = nbformat.read(path, as_version=4)
    with TemporaryDirectory() as home:
        (Path(home) / "matplotlibrc").touch()
        ours = {
            "IPYTHONDIR": home,
            "MATPLOTLIBRC": f"{home}/matplotlibrc",
            "OPENBLAS_NUM_THREADS": "1",
        }
        environment = {
            name: value for name, value in os.environ.items() if name != "MPLBACKEND"
        } | ours
        resources = {"metadata": {"path": str(path.parent)}}
        options = {"timeout": _SECONDS_PER_CELL, "record_timing": False, "coalesce_streams": True}
        problem = ""
        try:
            NotebookClient(notebook, resources=resources, **options).execute(env=environment)
        except (CellControlSignal, DeadKernelError) as error:
            problem = str(error)
    for cell in notebook["cells"]:
        for output in cell.get("outputs", ()):
            if output["output_type"] == "error":
                problem = (
                    f"cell {cell['id']}: expected a cell that runs, got {output['ename']}: "
                    f"{output['evalue']}"
                )
            elif output.get("name") == "stderr":
                problem = (
                    f"cell {cell['id']}: expected nothing on standard error, got "
                    f"{output['text'].strip()}"
                )
    if problem:
        raise SystemExit(f"{path}: {problem}")
    return normalized(json.loads(nbformat.writes(notebook)))


def normalized(notebook: Mapping[str, Any]) -> dict[str, Any]:
    """A notebook of format 4.5 without execution counts, times, versions and the state of an
    editor.
    """
    cells = []
    for cell in notebook["cells"]:
        kept = {name: cell[name] for name in ("cell_type", "id", "source")} | {"metadata": {}}
        if cell["cell_type"] == "code":
            kept |= {
                "execution_count": None,
                "outputs": [_normalized_output(output) for output in cell["outputs"]],
            }
        cells.append(kept)
    return {"cells": cells, "metadata": _METADATA, "nbformat": 4, "nbformat_minor": 5}


def _normalized_output(output: Mapping[str, Any]) -> dict[str, Any]:
    kept = {
        name: output[name] for name in ("output_type", "name", "text", "data") if name in output
    }
    if "data" in kept:
        kept |= {
            "metadata": {},
            "data": {kind: _small(kind, data) for kind, data in kept["data"].items()},
        }
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


if __name__ == "__main__":
    main()
