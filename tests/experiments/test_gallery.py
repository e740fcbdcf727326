"""The gallery shows every figure under its title, beside a config that produces it."""

import re

import pytest
import yaml

from experiments.figures.formulas import latex
from experiments.folders import diagnosis_path, drawn_texts, figure_path
from experiments.harness.config import load_config
from experiments.page.gallery import gallery


def test_every_figure_has_a_heading_a_picture_and_the_config_that_draws_it(drawn, tmp_path):
    config, folder = drawn
    text = gallery(config, folder, str)
    drawings = [figure_path(folder, sweep.name, name, ".png") for sweep in config.sweeps for name in sweep.figures]
    assert re.findall(r"^!\[.*\]\((.*)\)$", text, re.MULTILINE) == list(map(str, drawings))
    headings = re.findall("^## (.*)$", text, re.MULTILINE)
    assert headings == [latex(drawn_texts(path).title) for path in drawings]
    blocks = re.findall("```yaml\n(.*?)```", text, re.DOTALL)
    sweeps = {name: body for block in blocks for name, body in yaml.safe_load(block)["sweeps"].items()}
    (tmp_path / "whole.yaml").write_text(yaml.safe_dump({"seed": config.seed, "sweeps": sweeps}, sort_keys=False))
    loaded = load_config(tmp_path / "whole.yaml")
    for ours, theirs in zip(config.sweeps, loaded.sweeps, strict=True):
        assert (ours.name, ours.figures, set(ours.cells())) == (theirs.name, theirs.figures, set(theirs.cells()))


def test_the_shipped_diagnosis_comes_last_if_it_is_drawn(drawn, tmp_path):
    config, _ = drawn
    none = type(config)(0, ())
    assert gallery(none, tmp_path, str) == ""
    png = diagnosis_path(tmp_path, "heads.png")
    png.parent.mkdir(parents=True)
    png.touch()
    png.with_suffix(".txt").write_text("Heads [all] are sharp\nA caption [of 2].\n")
    assert f"![A caption (of 2).]({png})" in gallery(none, tmp_path, str)
    assert gallery(none, tmp_path, str).endswith("```sh\nmake diagnose\n```")


@pytest.mark.parametrize(
    ("plain", "expected"),
    [
        ("sqrt(d_k), wider", r"$\sqrt{d_k}$, wider"),
        ("under d_k^1/2/ln(n_keys)^1/2", r"under $\sqrt{d_k}/\sqrt{\ln n_\mathrm{keys}}$"),
        ("(|dL/dq|)", r"($\vert \partial L/\partial q\vert$)"),
        ("under d_k^1/2/0.43/ln(n_keys)", r"under $\sqrt{d_k}/(0.43\thinspace \ln n_\mathrm{keys})$"),
        ("no formula", "no formula"),
    ],
)
def test_formulas_touch_no_letter_or_digit(plain, expected):
    text = latex(plain)
    assert text == expected
    assert not re.search(r"\w\$[^$]+\$|\$[^$]+\$\w", text)
