"""The notebooks of docs/: small, without what differs from run to run, and with the outputs that
their cells give.

`make test-notebooks` installs what the tests with a kernel need.
"""

import base64
import copy
import io
import json
from importlib.util import find_spec

import numpy as np
import pytest
from PIL import Image

from docs.run_notebooks import executed, main, normalized, notebook_bytes
from tests.shipped import shipped_only
from tests.suite_process import ROOT

DOCS = ROOT / "docs"
NOTEBOOKS = sorted(DOCS.glob("*.ipynb"))
LARGEST = 400_000
# Of the same code on another processor, curves may differ in their last digits, and so a few pixels
# at their edges.
LEVELS, SHARE_OF_PIXELS = 16, 1e-3

each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def kernels(test):
    """Mark a test that starts a kernel."""
    reason = "notebooks are not run without a kernel: `make test-notebooks` installs it"
    return pytest.mark.notebooks(
        pytest.mark.skipif(find_spec("nbclient") is None, reason=reason)(test)
    )


def outputs(cell):
    """All outputs of a cell without their images, and these as (height, width, 3)."""
    others, pictures = copy.deepcopy(cell["outputs"]), []
    for output in others:
        if data := output.get("data", {}).pop("image/png", None):
            picture = Image.open(io.BytesIO(base64.b64decode(data)))
            pictures.append(np.asarray(picture.convert("RGB"), dtype=int))
    return others, pictures


@each_notebook
def test_a_notebook_is_small_whole_and_without_what_differs_from_run_to_run(path):
    content = path.read_bytes()
    assert len(content) < LARGEST
    assert notebook_bytes(normalized(json.loads(content))) == content
    for cell in json.loads(content)["cells"]:
        assert not cell["id"].endswith("-picture") or len(outputs(cell)[1]) == 1


@kernels
@shipped_only
@each_notebook
def test_a_notebook_has_the_outputs_of_its_cells(path):
    committed = json.loads(path.read_bytes())
    rerun = executed(path)
    for before, after in zip(committed["cells"], rerun["cells"], strict=True):
        if before["cell_type"] == "code":
            (text, pictures), (new_text, new_pictures) = map(outputs, (before, after))
            assert new_text == text, after["id"]
            for old, new in zip(pictures, new_pictures, strict=True):
                assert old.shape == new.shape, after["id"]
                share = (np.abs(old - new).max(axis=-1) > LEVELS).mean()
                assert share < SHARE_OF_PIXELS, after["id"]


@kernels
@pytest.mark.parametrize(
    "source, message",
    [
        ("1 / 0", "expected a cell that runs, got ZeroDivisionError: division by zero"),
        ("import os; os._exit(3)", "Kernel died"),
    ],
)
def test_a_cell_that_fails_or_warns_is_named_and_the_file_stays(tmp_path, source, message):
    path = tmp_path / "a.ipynb"
    cell = {"cell_type": "code", "id": "cell1", "source": source, "outputs": []}
    before = notebook_bytes(normalized({"cells": [cell]}))
    path.write_bytes(before)
    with pytest.raises(SystemExit, match=rf"a\.ipynb: (cell cell1: )?{message}"):
        main(tmp_path)
    assert path.read_bytes() == before
