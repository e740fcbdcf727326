"""The table and the figures of the examples: as shipped, written where something changed, captions of the table."""

import io
import os
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from experiments.examples import example_names, load_example
from experiments.examples.example import ExampleError, Step, table
from experiments.examples.table import examples, long_table, matrices, read_table
from experiments.figures.figure import Figure, Tables, load_figure
from experiments.figures.heatmaps import Panel, heatmap
from experiments.figures.style import panels
from experiments.folders import EXAMPLES, drawn_texts
from experiments.harness.tables import csv_bytes
from experiments.steps import examples as example_steps
from experiments.steps import saying

ROOT = Path(__file__).parents[3]
SHIPPED = ROOT / "results" / "examples"


@pytest.fixture(scope="module")
def numbers() -> pd.DataFrame:
    return examples()


def figure_of(example: str) -> Figure:
    return load_figure(f"{EXAMPLES}.{example}")


def changed(numbers: pd.DataFrame, example: str, step: str, change) -> Tables:
    """The steps of an example with the numbers of one replaced."""
    chosen = (numbers["example"] == example) & (numbers["step"] == step)
    assert chosen.any()
    return matrices(numbers.assign(value=np.where(chosen, change(numbers["value"]), numbers["value"])), example)


def test_the_shipped_numbers_are_what_comes_out(numbers):
    assert csv_bytes(numbers) == (SHIPPED / "examples.csv").read_bytes()


def test_every_number_is_in_the_table_under_its_names(numbers):
    for name in example_names():
        steps = matrices(numbers, name)
        for step in load_example(name).steps():
            if step.matrix:
                found = steps[step.name]
                assert tuple(found.index) == step.matrix.rows
                assert tuple(found.columns) == step.matrix.columns
                np.testing.assert_array_equal(found.to_numpy(), step.matrix.values)


def test_a_table_reads_back_with_its_names_and_hidden_keys(tmp_path):
    steps = [Step("s", "Heading", "", table([[1, -np.inf], [0.5, 2]], ("NA", "1"), ("null", "2.0")))]
    path = tmp_path / "table.csv"
    path.write_bytes(csv_bytes(long_table("mine", steps)))
    found = matrices(read_table(path), "mine")["s"]
    assert (list(found.index), list(found.columns)) == (["NA", "1"], ["null", "2.0"])
    assert found.to_numpy().tolist() == [[1, -np.inf], [0.5, 2]]


def test_two_steps_of_one_name_are_refused():
    with pytest.raises(ValueError, match="mine: expected steps with unique names, got s, s"):
        long_table("mine", [Step("s", "Heading", ""), Step("s", "Heading", "")])


@pytest.mark.parametrize("name", example_names())
def test_every_example_has_its_figure_with_the_shipped_caption(name, numbers):
    figure, steps = figure_of(name), matrices(numbers, name)
    assert drawn_texts(SHIPPED / f"{name}.txt") == (figure.shows, figure.caption(steps))
    assert (SHIPPED / f"{name}.png").exists()


@pytest.mark.parametrize("name", example_names())
def test_a_caption_follows_its_table(name, numbers):
    figure, steps = figure_of(name), matrices(numbers, name)
    other = figure.caption({step: 0.5 * matrix + 0.125 for step, matrix in steps.items()})
    assert other != figure.caption(steps)


# What a reader needs to place the numbers of a caption; the scores of the last two have no d_k.
SIZES = {
    "cat_sat_down": "d_k = 8, n_keys = 4",
    "comparison": "d_k = 4 to 512",
    "four_words": "d_k = 4, n_keys = 4",
    "notebook": "d_k = 4, n_keys = 3",
    "session": "d_k = 6, n_keys = 4",
    "weight_strip": "At d_k = 64, the largest of 8 weights",
    "dog_bites_man": "With n_keys = 3, dog",
    "two_scales": "With n_keys = 4, the",
}


@pytest.mark.parametrize("name", SIZES)
def test_a_caption_names_its_sizes(name, numbers):
    assert SIZES[name] in figure_of(name).caption(matrices(numbers, name))


def test_the_sizes_of_a_caption_are_those_of_its_table(numbers):
    fewer = numbers[(numbers["example"] != "weight_strip") | (numbers["column"] != "8")]
    wider = changed(fewer, "weight_strip", "measures", lambda x: 2 * x)
    assert "At d_k = 128, the largest of 7 weights" in figure_of("weight_strip").caption(wider)
    doubled = changed(numbers, "session", "divisor", lambda x: 2 * x)
    assert "d_k = 24, n_keys = 4" in figure_of("session").caption(doubled)


def test_captions_claim_only_what_their_table_shows(numbers):
    captions = {name: figure_of(name).caption for name in example_names()}
    assert "softmax of half" not in captions["dog_bites_man"](
        changed(numbers, "dog_bites_man", "halved", lambda x: x + np.arange(len(x)))
    )
    assert "at least the even share" in captions["cat_sat_down"](
        changed(numbers, "cat_sat_down", "diagonal", lambda x: 1 - x)
    )
    assert "leaves no output unchanged" in captions["causal_mask"](
        changed(numbers, "causal_mask", "moved", lambda x: x + 1)
    )
    assert "differs by up to 3" in captions["permutation"](
        changed(numbers, "permutation", "difference", lambda x: x + 3)
    )
    assert "B has the same score" not in captions["abc"](
        changed(numbers, "abc", "scores", lambda x: x + np.arange(len(x)))
    )


def test_cells_are_light_enough_for_black_numbers_and_darker_is_more():
    _, [[ax]] = panels(1, 1, (4, 4))
    heatmap(ax, pd.DataFrame([[0.0, 0.5, 1.0, -np.inf]]).rename(columns=str, index=str), Panel("s", "title", (0, 1)))
    (image,) = ax.images
    light = [_luminance(image.cmap(image.norm(value))) for value in (0, 0.5, 1)]
    assert light[0] > light[1] > light[2]
    assert (light[2] + 0.05) / 0.05 > 6
    assert [text.get_text() for text in ax.texts] == ["0.00", "0.50", "1.00", "−∞"]
    assert {text.get_color() for text in ax.texts} == {"black"}


def _luminance(colour) -> float:
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour[:3]]
    return float(np.dot(linear, (0.2126, 0.7152, 0.0722)))


def test_what_is_current_is_kept_and_what_is_not_is_written(tmp_path, capsys, monkeypatch, numbers):
    monkeypatch.setattr("experiments.examples.table.examples", lambda: numbers)

    def said() -> list[str]:
        example_steps.write_examples(tmp_path)
        example_steps.draw_examples(tmp_path, ["two_scales"])
        return [
            line.split(": ")[0].split("/")[-1] + " " + line.split()[0] for line in capsys.readouterr().out.splitlines()
        ]

    folder = tmp_path / "examples"
    assert said() == ["examples.csv wrote", "two_scales.png drew"]
    assert (folder / "examples.csv").read_bytes() == (SHIPPED / "examples.csv").read_bytes()
    assert said() == ["examples.csv " + f"{folder}/examples.csv:", "two_scales.png kept"]
    (folder / "two_scales.png").write_bytes(b"")
    assert said()[1] == "two_scales.png drew"
    (folder / "examples.csv").write_bytes(b"damaged")
    assert said() == ["examples.csv wrote", "two_scales.png kept"]
    assert (folder / "examples.csv").read_bytes() == (SHIPPED / "examples.csv").read_bytes()
    (folder / ".made.json").write_text("damaged")
    assert said() == ["examples.csv kept", "two_scales.png drew"]


def test_without_a_table_no_figure_is_drawn(tmp_path, capsys):
    example_steps.draw_examples(tmp_path)
    assert (capsys.readouterr().out, list(tmp_path.iterdir())) == ("", [])


def test_an_example_that_is_not_there_is_named_with_those_that_are():
    with pytest.raises(ExampleError, match=r"got the example table, expected one of abc, cat-sat-down, .*"):
        load_example("table")


def test_the_list_has_a_command_for_every_example():
    *lines, own = example_steps.walk_list().splitlines()
    for name, line in zip(example_names(), lines, strict=True):
        assert line.split("  ")[0] == f"make walk EXAMPLE={name.replace('_', '-')}"
        assert line.endswith(f"  {load_example(name).title}")
    assert own.startswith("make walk Q=q.csv K=k.csv V=v.csv  ")
    assert max(map(len, lines)) <= 100


def test_a_pager_that_closes_early_is_no_error(monkeypatch):
    read, write = os.pipe()
    os.close(read)
    with io.TextIOWrapper(os.fdopen(write, "wb"), encoding="latin-1") as closed:
        monkeypatch.setattr(sys, "stdout", closed)
        for _ in range(2):
            saying.tell("−0.5")
