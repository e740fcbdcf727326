"""The example of every experiment, over which the generic tests iterate.

`experiments/kinds/NAME/example.py` binds `EXAMPLE`, YAML with the keys

    sweeps   tiny sweeps, which are measured once for all tests
    other    another value of each axis of the first cell, beside those of `OTHER`
    large    a sweep of one large cell, whose memory is compared with the plan
    refused  by the words of a refusal, a sweep, which may be one of another experiment
    edits    the values of each key in grids of small sweeps, beside those of `EDITS`; `further` are
             keys that only some of the sweeps have
    figures  by figure: a sweep, the number of its rows that are drawn, and the words for the others
    claims   by finding (sweep/figure), what its sentence says, for another computation of it

Sweeps are as in config.yaml, without `experiment`; `large` and those of `figures` also without
`trials`.
"""

import json
from pathlib import Path

import pytest
import yaml

from experiments.config.loader import load_config
from experiments.kinds import modules
from experiments.measuring.columns import cell_fields
from experiments.measuring.experiment import load_experiment
from experiments.running import fingerprint

EXAMPLES = {name: yaml.safe_load(module.EXAMPLE) for name, module in modules("example")}
# Of axes that many experiments share. No tiny sweep begins with one of these values.
OTHER = yaml.safe_load("""
d_k: 6
n_keys: 9
n_queries: 2
scaling: [d_k^1/4, d_k^1/2]
inputs: uniform
query_std: 1.1
key_std: 1.1
query_mean: 0.1
key_mean: 0.1
correlation: 0.1
spectrum: 0.5
normalize: rms
mask: causal
""")
EDITS = yaml.safe_load("""
d_k: [16, [4, 16], [4, 16, 64], [2, 4, 8, 16, 32]]
n_keys: [8, [4, 8], [4, 8, 16], [2, 4, 8, 16]]
n_queries: [2]
scaling:
- d_k^1/2
- [unscaled, d_k^1/2]
- [8, d_k^0.9, d_k^1/2/ln(n_keys)]
- [unscaled, d_k^1/3, d_k^1/2, d_k^2/3, d_k^3/2]
trials: [20]
""")


def with_common(name, key, common):
    """A part of an example, with common values of the keys that the experiment takes."""
    keys = {*cell_fields(load_experiment(name).cell), "trials"}
    taken = {axis: value for axis, value in common.items() if axis in keys}
    return taken | EXAMPLES[name].get(key, {})


def tiny_sweeps():
    """The tiny sweeps of all experiments."""
    return {
        sweep: {"experiment": name} | body
        for name, example in EXAMPLES.items()
        for sweep, body in example["sweeps"].items()
    }


def load_sweeps(folder, sweeps):
    """The config of some sweeps, as the file `tiny.yaml` of a folder."""
    path = folder / "tiny.yaml"
    path.write_text(json.dumps({"seed": 0, "sweeps": sweeps}))
    return load_config(path)


def hashed_files(experiment):
    """The files whose hash is the source that measures an experiment."""
    read = []
    fingerprint.source.cache_clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "read_bytes", lambda path: read.append(path) or b"")
        fingerprint.measuring_source(load_experiment(experiment))
    fingerprint.source.cache_clear()
    return {*read}
