"""Generated configs: whatever is swept, tables, figures and a page come out."""

import shutil
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from experiments.config.loader import load_config
from experiments.declarations import figures_of
from experiments.engine.check import check
from experiments.engine.measure import measure
from experiments.engine.workers import LocalWorkers
from experiments.figures.draw import draw
from experiments.pages.index import write_page
from experiments.paths import figure_path
from sdpa import LAWS
from sdpa.arithmetic import FORMATS
from sdpa.initialisation import SCHEMES

RULES = (
    "unscaled",
    "d_k^1/3",
    "d_k^1/2",
    "d_k^2/3",
    "d_k^1",
    "d_k^0.9",
    "d_k^3/2",
    8,
    "d_k^1/2/ln(n_keys)",
)


def axis(values: st.SearchStrategy, most: int = 3) -> st.SearchStrategy:
    """A single value or a list of different ones."""
    return values | st.lists(values, min_size=1, max_size=most, unique=True)


SIZES = {
    "d_k": axis(st.sampled_from([1, 2, 3, 8, 64, 300])),
    "n_keys": axis(st.sampled_from([2, 3, 7, 40])),
    "scaling": axis(st.sampled_from(RULES), most=len(RULES)),
}
INPUTS = {
    "n_queries": axis(st.sampled_from([1, 2, 5]), most=2),
    "inputs": axis(st.sampled_from(list(LAWS)), most=2),
    "query_std": axis(st.sampled_from([0.1, 1, 3, 30]), most=2),
    "key_std": axis(st.sampled_from([0.1, 30]), most=2),
    "query_mean": st.sampled_from([0, 0.5, -10]),
    "key_mean": st.sampled_from([0, 0.5, -10]),
    "spectrum": st.sampled_from([0, 0.5, 2]),
    "normalize": st.sampled_from(["none", "l2", "rms"]),
}

WITHOUT_QUERIES = {key: values for key, values in INPUTS.items() if key != "n_queries"}
ROW_MAPS = {
    "sink": axis(st.sampled_from([-4, 4]), most=2),
    "mask": axis(st.sampled_from(["none", "causal", "window-2"]), most=2),
}


def figures(experiment: str) -> st.SearchStrategy:
    names = figures_of(experiment)
    return axis(st.sampled_from(names), most=2) if names else st.nothing()


SATURATION = st.fixed_dictionaries(
    {"experiment": st.just("saturation"), **SIZES, "trials": st.sampled_from([2, 3, 19, 20, 60])},
    optional={**INPUTS, "figures": figures("saturation")},
)
MAPPED = st.fixed_dictionaries(
    {
        "experiment": st.just("saturation"),
        **SIZES,
        "softcap": axis(st.sampled_from([5, 50]), most=2),
        "n_queries": st.sampled_from([1, 2]),  # a mask wants at most n_keys
        "trials": st.sampled_from([2, 20]),
    },
    optional={**WITHOUT_QUERIES, **ROW_MAPS, "figures": figures("mechanisms")},
)
ROWS = st.fixed_dictionaries(
    {"experiment": st.just("rows"), **SIZES, "trials": st.integers(1, 3)},
    optional={**INPUTS, "figures": figures("rows")},
)
DISTRIBUTION = st.fixed_dictionaries(
    {
        "experiment": st.just("distribution"),
        "d_k": SIZES["d_k"],
        "trials": st.sampled_from([20, 21, 3000]),
    }
)
INITIALISATION = st.fixed_dictionaries(
    {
        "experiment": st.just("initialisation"),
        "d_model": axis(st.sampled_from([8, 64]), most=2),
        "n_heads": axis(st.sampled_from([1, 2, 8]), most=2),
        "n_keys": axis(st.sampled_from([5, 40]), most=2),
        "n_queries": st.sampled_from([1, 5]),
        "scheme": axis(st.sampled_from(list(SCHEMES)), most=2),
        "scaling": SIZES["scaling"],
        "trials": st.sampled_from([2, 20, 60]),
    },
    optional={"figures": figures("initialisation")},
)
ROUNDING, EIGHT_BITS = (
    st.fixed_dictionaries(
        {
            "experiment": st.just(experiment),
            **SIZES,
            "arithmetic": axis(
                st.sampled_from([name for name in FORMATS if name.startswith("float8") == short])
            ),
            "trials": st.sampled_from([2, 20]),
        },
        optional={**INPUTS, "figures": figures(experiment)},
    )
    for experiment, short in (("rounding", False), ("eight_bits", True))
)
LANGUAGE = st.fixed_dictionaries(
    {
        "experiment": st.just("language"),
        "d_k": axis(st.sampled_from([2, 8, 300]), most=2),
        "n_keys": axis(st.sampled_from([2, 7]), most=2),
        "learning_rate": axis(st.sampled_from([1e-9, 0.01, 1, 1e6])),
        "scaling": SIZES["scaling"],
        "steps": st.sampled_from([25, 40]),
        "trials": st.sampled_from([2, 3, 20]),
        "layers": st.sampled_from([1, 2]),
        "width": st.sampled_from([4, 8]),
    },
    optional={
        "n_heads": axis(st.sampled_from([1, 2]), most=2),
        "optimizer": axis(st.sampled_from(["adam", "momentum"]), most=2),
        "initial": axis(st.sampled_from(["unit", "small"]), most=2),
        "n_sequences": st.sampled_from([2, 5]),
        "warmup": st.sampled_from([0, 7]),
        "clip": st.sampled_from([0, 1]),
        "initial_divisor": axis(st.sampled_from(["unscaled", "d_k^1/4"]), most=2),
        "rate_divisor": axis(st.sampled_from(["unscaled", "d_k^1/4"]), most=2),
        "figures": figures("language"),
    },
)
NETWORK = st.fixed_dictionaries(
    {"experiment": st.just("network"), **SIZES, "trials": st.sampled_from([2, 20])},
    optional={
        "token_cosine": axis(st.sampled_from([0.2, 0.999]), most=2),
        "residual": axis(st.sampled_from([0.5, 1000]), most=2),
        "layers": axis(st.sampled_from([1, 3]), most=2),
        "n_heads": axis(st.sampled_from([2, 3]), most=2),
        "norm": axis(st.sampled_from(["pre", "post"]), most=2),
        "mlp": axis(st.sampled_from(["none", "relu", "swiglu"]), most=2),
        "mask": axis(st.sampled_from(["none", "causal"]), most=2),
        "figures": figures("network"),
    },
)
SWEEP = st.one_of(
    SATURATION, MAPPED, ROWS, DISTRIBUTION, INITIALISATION, ROUNDING, EIGHT_BITS, LANGUAGE, NETWORK
)


CONFIG = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 3),
        "sweeps": st.dictionaries(st.sampled_from("abc"), SWEEP, min_size=1, max_size=2),
    }
)


def run_whole(config: dict, folder: Path) -> None:
    """Measure, check, draw and write the page, and find a file for everything that the config asks
    for.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    path = folder / "any.yaml"
    path.write_text(yaml.safe_dump(config))
    loaded = load_config(path)
    measure(loaded, loaded.sweeps, folder, LocalWorkers(1))
    check(loaded, loaded.sweeps, folder)
    draw(loaded, loaded.sweeps, folder, jobs=1)
    write_page(loaded, folder, path)
    page = (folder / "index.html").read_text(encoding="utf-8")
    for sweep in loaded.sweeps:
        assert (folder / f"{sweep.name}.csv").exists()
        for figure in sweep.figures:
            assert f'id="{sweep.name}-{figure}"' in page
            caption = figure_path(folder, sweep.name, figure, ".txt").read_text()
            assert "nan" not in caption
            assert "inf" not in caption.split()


# A run takes seconds, so that a failing config is shown as it is instead of shrunk.
@pytest.mark.edits
@pytest.mark.usefixtures("in_this_process", "quick_slider")
@settings(
    max_examples=20,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    phases=(Phase.explicit, Phase.generate),
)
@given(config=CONFIG)
def test_any_of_20_generated_configs_runs(tmp_path_factory, config):
    run_whole(config, tmp_path_factory.getbasetemp() / "any")
