"""The notebooks of docs/: small, without what differs from run to run, and with the outputs that their cells give.

`make test-notebooks` installs what the tests with a kernel need.
"""

import base64
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from experiments.steps.notebooks import NotebookError, executed, normalized, notebook_bytes, run_notebooks
from tests.command_line import call
from tests.shipped import shipped_only

DOCS = Path(__file__).parents[3] / "docs"
NOTEBOOKS = sorted(DOCS.glob("*.ipynb"))
LARGEST = 400_000
# Of the same code on another processor, curves may differ in their last digits, and so a few pixels at their edges.
LEVELS, SHARE_OF_PIXELS = 16, 1e-3

each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def kernels(test: Any) -> Any:
    """Mark a test that starts a kernel."""
    reason = "notebooks are not run without a kernel: `make test-notebooks` installs it"
    return pytest.mark.notebooks(pytest.mark.skipif(find_spec("nbclient") is None, reason=reason)(test))


def code(source: str, ident: str = "first", outputs: tuple[Any, ...] = ()) -> dict[str, Any]:
    """A code cell."""
    known = {"cell_type": "code", "id": ident, "source": source, "metadata": {}}
    return known | {"execution_count": None, "outputs": list(outputs)}


def write(path: Path, *cells: dict[str, Any]) -> Path:
    path.write_bytes(notebook_bytes(normalized({"cells": cells})))
    return path


def printed(cell: dict[str, Any]) -> str:
    """What a cell printed."""
    return "".join(line for output in cell["outputs"] for line in output.get("text", ()))


def pictures(cell: dict[str, Any]) -> list[np.ndarray]:
    """The images among the outputs of a cell, as (height, width, 3)."""
    data = [output["data"]["image/png"] for output in cell["outputs"] if "image/png" in output.get("data", {})]
    return [np.asarray(Image.open(io.BytesIO(base64.b64decode(each))).convert("RGB"), dtype=int) for each in data]


def texts(cell: dict[str, Any]) -> list[dict[str, Any]]:
    """All outputs of a cell without their images."""
    return [
        {**output, "data": {kind: data for kind, data in output.get("data", {}).items() if kind != "image/png"}}
        for output in cell["outputs"]
    ]


def test_there_are_notebooks():
    assert [path.name for path in NOTEBOOKS] == ["lecture.ipynb", "your-attention.ipynb"]


@each_notebook
def test_a_notebook_has_nothing_that_differs_from_run_to_run(path):
    assert notebook_bytes(normalized(json.loads(path.read_bytes()))) == path.read_bytes()


@each_notebook
def test_a_notebook_is_small_and_complete(path):
    assert len(path.read_bytes()) < LARGEST
    cells = json.loads(path.read_bytes())["cells"]
    assert len({cell["id"] for cell in cells}) == len(cells)
    assert [cell["id"] for cell in cells if cell["id"].endswith("-picture") and len(pictures(cell)) != 1] == []
    outputs = [output for cell in cells if cell["cell_type"] == "code" for output in cell["outputs"]]
    assert {output["output_type"] for output in outputs} <= {"display_data", "execute_result"}


def test_every_section_of_the_lecture_has_a_picture():
    cells = json.loads((DOCS / "lecture.ipynb").read_bytes())["cells"]
    headings = [cell for cell in cells if cell["cell_type"] == "markdown" and "## " in cell["source"][0]]
    drawn = [cell for cell in cells if cell["id"].endswith("-picture")]
    assert len(drawn) == len(headings) - 1  # the last one is the answer


@each_notebook
def test_links_of_a_notebook_lead_somewhere(path):
    cells = json.loads(path.read_bytes())["cells"]
    text = "".join(line for cell in cells if cell["cell_type"] == "markdown" for line in cell["source"])
    links = re.findall(r"\]\((?!https:)([^)#]+)\)", text)
    assert links
    assert [link for link in links if not (DOCS / link).exists()] == []


def test_times_counts_and_versions_go():
    picture = io.BytesIO()
    Image.effect_noise((64, 48), 50).convert("RGBA").save(picture, "PNG")
    image = base64.b64encode(picture.getvalue()).decode()
    four = {"data": {"text/plain": ["4"]}, "output_type": "execute_result"}
    result = four | {"execution_count": 3, "metadata": {"a": 1}}
    shown = {"output_type": "display_data", "metadata": {"image/png": {"width": 9}}, "data": {"image/png": image}}
    cell = code("2 + 2", outputs=(result, shown)) | {"execution_count": 3, "metadata": {"execution": {"a": "12:00"}}}
    found = normalized({"cells": [cell], "metadata": {"language_info": {"version": "3.11.7"}}})
    (kept,) = found["cells"]
    assert kept["source"] == "2 + 2"
    assert (kept["metadata"], kept["execution_count"]) == ({}, None)
    assert kept["outputs"][0] == four | {"execution_count": None, "metadata": {}}
    assert kept["outputs"][1]["metadata"] == {}
    assert "3.11" not in json.dumps(found)
    assert normalized(found) == found
    (before,), (after,) = pictures(cell), pictures(kept)
    assert np.abs(before - after).max() <= LEVELS


@kernels
@shipped_only
@each_notebook
def test_a_notebook_has_the_outputs_of_its_cells(path):
    committed = json.loads(path.read_bytes())
    found = executed(path)
    for before, after in zip(committed["cells"], found["cells"], strict=True):
        if before["cell_type"] == "code":
            assert texts(after) == texts(before), after["id"]
            for old, new in zip(pictures(before), pictures(after), strict=True):
                assert old.shape == new.shape, after["id"]
                assert (np.abs(old - new).max(axis=-1) > LEVELS).mean() < SHARE_OF_PIXELS, after["id"]


@kernels
@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("1 / 0", "expected a cell that runs, got ZeroDivisionError: division by zero"),
        ("import warnings; warnings.warn('old')", r"expected nothing on standard error, got .*UserWarning: old"),
        ("import os; os._exit(3)", "Kernel died"),
    ],
)
def test_a_cell_that_fails_or_warns_is_named_and_the_file_stays(tmp_path, source, message):
    path = write(tmp_path / "a.ipynb", code("1"), code(source, "second"))
    before = path.read_bytes()
    with pytest.raises(NotebookError, match=rf"a\.ipynb: (cell second: )?{message}"):
        run_notebooks(tmp_path)
    assert path.read_bytes() == before


@kernels
def test_outputs_are_written_and_a_second_run_gives_the_same_bytes(tmp_path, capsys):
    drawn = "import time\nimport matplotlib.pyplot as plt\nplt.plot([0, 1], [1, 0], color='red')\n"
    source = f"{drawn}print('drawn', flush=True)\ntime.sleep(0.5)\nprint('too')"
    path = write(tmp_path / "a.ipynb", code(source))
    run_notebooks(tmp_path)
    first = path.read_bytes()
    run_notebooks(tmp_path)
    assert path.read_bytes() == first
    assert capsys.readouterr().out == f"wrote {path}\n{path}: up to date\n"
    (cell,) = json.loads(first)["cells"]
    assert printed(cell) == "drawn\ntoo\n"
    assert (len(cell["outputs"]), len(pictures(cell))) == (2, 1)


@kernels
def test_a_kernel_runs_in_the_folder_with_this_interpreter_and_without_settings_of_the_user(tmp_path, monkeypatch):
    home, docs = tmp_path / "home", tmp_path / "docs"
    docs.mkdir()
    for folder in ("ipython/profile_default/startup", "jupyter/kernels/python3", "matplotlib"):
        (home / folder).mkdir(parents=True)
    (home / "ipython/profile_default/startup/mine.py").write_text("mine = 1\n")
    (home / "matplotlib/matplotlibrc").write_text("font.size: 30\n")
    wrong = {"argv": ["false"], "display_name": "wrong", "language": "python"}
    (home / "jupyter/kernels/python3/kernel.json").write_text(json.dumps(wrong))
    settings = {"HOME": "", "IPYTHONDIR": "ipython", "JUPYTER_PATH": "jupyter", "MPLCONFIGDIR": "matplotlib"}
    for name, place in settings.items():
        monkeypatch.setenv(name, str(home / place))
    monkeypatch.setenv("MPLBACKEND", "agg")
    before = sorted(home.rglob("*"))
    source = "import os, sys, matplotlib as mpl\nprint(os.getcwd(), sys.prefix, 'mine' in globals())\n"
    found = executed(write(docs / "a.ipynb", code(f"{source}print(mpl.rcParams['font.size'], mpl.get_backend())")))
    assert printed(found["cells"][0]) == f"{docs} {sys.prefix} False\n10.0 module://matplotlib_inline.backend_inline\n"
    assert [path for path in sorted(home.rglob("*")) if path not in before and "fontlist" not in path.name] == []


def as_the_root(folder: Path) -> None:
    """Make a folder look like the repository root, where commands run."""
    (folder / "docs").mkdir()
    (folder / "config.yaml").touch()


@kernels
def test_the_command_reports_a_failure_in_one_line(tmp_path, monkeypatch):
    as_the_root(tmp_path)
    write(tmp_path / "docs" / "a.ipynb", code("1 / 0"))
    monkeypatch.chdir(tmp_path)
    ran = call("notebooks")
    assert ran.returncode == 1
    failure = "cell first: expected a cell that runs, got ZeroDivisionError: division by zero"
    assert ran.stderr == f"docs/a.ipynb: {failure}\n"


@kernels
@pytest.mark.parametrize(("sent", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interruption_ends_the_kernel(tmp_path, sent, status):
    as_the_root(tmp_path)
    started = tmp_path / "pid"
    source = f"import os, pathlib, time\npathlib.Path('{started}').write_text(str(os.getpid()))\ntime.sleep(100)"
    write(tmp_path / "docs" / "a.ipynb", code(source))
    command = [sys.executable, "-m", "experiments", "notebooks"]
    running = subprocess.Popen(
        command,
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    deadline = time.monotonic() + 60
    while not (started.exists() and started.read_text()) and time.monotonic() < deadline:
        time.sleep(0.05)
    running.send_signal(sent)
    _, errors = running.communicate(timeout=30)
    assert (running.returncode, errors.count("\n")) == (status, 1)
    assert errors.startswith("interrupted; ")
    with pytest.raises(ProcessLookupError):
        os.kill(int(started.read_text()), 0)
