"""The steps that find a divisor and that make statements.csv again."""

import re
import shutil
from dataclasses import replace

import pandas as pd
import pytest

from experiments.claims import statements as step
from experiments.claims.table import table_path
from experiments.output.reporter import Reporter
from sdpa import Scaling, theory
from tests.command_line import printed, sdpa
from tests.shipped import CONFIG, RESULTS


def test_the_divisor_and_its_table_are_those_of_theory():
    shown = printed(sdpa("design", "--d-k", "16", "--n-keys", "64", "--max-weight", "0.2"))
    told = re.match(
        r"divide the scores by ([\d.]+) for max_weight = 0.2 at d_k = 16 and n_keys = 64",
        shown,
    )
    divisor = float(told[1])
    exact = theory.divisor_for("max_weight", 0.2, 16, 64)
    assert divisor == pytest.approx(exact, rel=1e-3)
    _, rules, _, _, *table = shown.splitlines()
    divisors = [Scaling.parse(x).divisor(16, 64) for x in re.split(", | or ", rules.split(": ")[1])]
    assert divisors == pytest.approx([exact] * 3, rel=1e-3)
    assert [int(line.split()[0]) for line in table] == [4, 16, 64, 256, 1024]
    longest = theory.attention_expectations(16, 1024, exact)
    assert float(table[-1].split()[3]) == pytest.approx(longest.max_weight, rel=1e-3)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            (),
            "one of the arguments --entropy --entropy-share --max-weight --row-variance is",
        ),
        (
            ("--row-variance", "1", "--mask", "window-1"),
            "expected a mask under which a query sees two keys, got one key for each",
        ),
        (
            ("--max-weight", "0.2", "--inputs", "laplace"),
            "softmax rows are known only for gaussian entries",
        ),
    ],
)
def test_impossible_wishes_end_with_one_line(words, message):
    shown = sdpa("design", "--d-k", "16", "--n-keys", "64", *words)
    assert (shown.returncode, shown.stdout) == (2, "")
    assert re.search(message, shown.stderr)


MADE = "id,note\nqa-3,so\n"


@pytest.mark.skipif(bool(step.cannot_judge(CONFIG)), reason="results/ are of another config")
def test_the_table_is_made_again_after_a_change_but_not_by_other_sweeps(
    tmp_path, capsys, monkeypatch
):
    others = (
        "figures",
        "examples",
        "benchmarks",
        "models",
        "*.html",
        ".*",
        "long-format.csv",
    )
    shutil.copytree(RESULTS, tmp_path, dirs_exist_ok=True, ignore=shutil.ignore_patterns(*others))
    monkeypatch.setattr(
        step, "compute_table", lambda _: pd.DataFrame({"id": ["qa-3"], "note": ["so"]})
    )
    path = table_path(tmp_path)

    def said(config=CONFIG) -> str:
        step.update_statements(config, tmp_path, Reporter(verbose=True))
        return capsys.readouterr().out

    assert "wrote" in said()
    assert path.read_text() == MADE
    assert said().endswith("statements.csv: up to date\n")
    sidecar = tmp_path / "config.full" / "language.json"
    sidecar.write_text(sidecar.read_text() + "\n")
    assert "statements.csv: unchanged" in said()
    path.write_text("id,note\n")
    few = tuple(replace(sweep, trials=19) for sweep in CONFIG.sweeps)
    for edited in (replace(CONFIG, sweeps=few), replace(CONFIG, sweeps=CONFIG.sweeps[2:])):
        assert "kept" in said(edited)
        assert path.read_text() == "id,note\n"
    assert "wrote" in said()
    assert path.read_text() == MADE
