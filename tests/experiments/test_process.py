"""A process of the suite: its instructions, what it loads, its exit status."""

import json
import os
import sys
from signal import SIGINT, SIGTERM, getsignal, raise_signal

import pytest
import typer
from threadpoolctl import threadpool_info

from experiments.commands.request import exit_on_error
from experiments.kinds import experiment_names
from experiments.measuring.processor import (
    FIXED,
    VARIABLES,
    arithmetic,
    is_supported,
    require_fixed,
)
from tests.suite_process import captured

supported = pytest.mark.skipif(
    not is_supported(), reason="this processor has no instructions in common with others"
)


@supported
def test_this_process_uses_the_instructions_of_the_suite_and_another_is_refused():
    require_fixed()
    assert FIXED.items() <= arithmetic().items()
    assert VARIABLES.items() <= os.environ.items()
    loaded = threadpool_info()
    assert {each["num_threads"] for each in loaded if each["user_api"] == "blas"} == {1}
    code = "import numpy; from experiments.measuring.processor import require_fixed as r; r()"
    settings = os.environ | {"OPENBLAS_CORETYPE": "Sandybridge"}
    ran = captured(sys.executable, "-c", code, env=settings)
    assert (
        "got {'simd': 'X86_V3', 'blas': 'Sandybridge'}: import experiments before NumPy, or set "
        in ran.stderr
    )


WORKER = "\n".join(f"import experiments.kinds.{name}" for name in experiment_names())
HEAVY = {"pandas", "scipy", "scipy.stats", "matplotlib", "seaborn", "jinja2", "pydantic", "typer"}


def loaded(code):
    """Which of the heavy packages a fresh interpreter has loaded after that code."""
    code += "\nimport json, sys; print(json.dumps(sorted(sys.modules)))"
    ran = captured(sys.executable, "-c", code)
    assert ran.returncode == 0, ran.stderr
    return HEAVY & set(json.loads(ran.stdout.splitlines()[-1]))


PLAN = """\
from tests.command_line import call
call("plan", "--config", "quick.yaml", "--results", "nowhere")
"""


@pytest.mark.parametrize(
    "code, needed",
    [(f"import experiments.running.workers\n{WORKER}", set()), (PLAN, {"typer", "pydantic"})],
)
def test_workers_and_commands_load_what_they_need(code, needed):
    assert loaded(code) == needed


def hidden(sent):
    """As the import of a compiled module reports an exception in it."""
    try:
        raise_signal(sent)
    except BaseException as error:
        raise ImportError("initialization failed") from error


@pytest.mark.parametrize("stop, sent", [(raise_signal, SIGTERM), (hidden, SIGINT)])
@pytest.mark.usefixtures("ctrl_c")
def test_a_signal_has_its_status_wherever_it_comes(stop, sent, capsys):
    before = getsignal(sent)
    with pytest.raises(typer.Exit) as caught, exit_on_error():
        stop(sent)
    assert getsignal(sent) == before
    assert caught.value.exit_code == 128 + sent
    assert capsys.readouterr().err.startswith("interrupted; finished work is kept;")
