"""Training of a decoder on text: a language model of characters, from its start, under each rule.

A trial is one run per rule; the rules share the start and the batches of their trial. A batch is
random stretches of the first nine tenths of the text; `test_loss` is that of 32 fixed stretches of
the rest. All numbers are in single precision. Queries and keys have RoPE, of base 10,000.

With careful readings, the last step's loss is that of the whole rest, and its heads are those of a
pass of the same weights in double precision.

Embeddings start as N(0, 1), the unembedding as N(0, 0.02^2), and W_Q and W_K as `initial` says;
other matrices with the variance 1/rows, those onto the stream divided by sqrt(2 layers) as well.
Then W_Q and W_K are divided by initial_divisor. The learning rate rises linearly over the steps of
the warm-up, and stays or falls linearly to 0; that of W_Q and W_K is divided by rate_divisor. The
gradients at q and k are divided by gradient_divisor, so that a rule can divide in one pass alone.

With `normalize`, q and k have r.m.s. 1 in each head before RoPE; `gain` multiplies q, by 1 at the
start, and a learned one has the learning rate of other weights. The row map of `sdpa.row_maps` stands
between the divisor and the weights.

A run ends once its numbers are too large; it keeps the values of its last record, with a loss of
100 nats.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Literal, Self

import numpy as np
from annotated_types import Ge, Gt, Le

from experiments.kinds.language.corpus import (
    TESTED,
    TextName,
    Tokens,
    all_held_out,
    characters,
    held_out_stretches,
    stretches,
    trained_on,
)
from experiments.kinds.language.training import (
    HEAD_VALUES,
    RUN_VALUES,
    SMALLEST,
    Recipe,
    embedding_gradient,
    head_values,
    train,
)
from experiments.measuring.cells import LAYER, RULE_COLUMNS, Row, ScaledCell
from experiments.measuring.columns import Column, Meaning, with_error_columns
from experiments.measuring.experiment import MEASURED, Experiment
from experiments.measuring.metric import Metric, metric_columns, metric_row
from experiments.measuring.quantiles import Histograms, Quantile
from experiments.measuring.sampling import SoftCap
from sdpa import Scaling
from sdpa._arrays import FloatArray
from sdpa.decoder import Decoder, OptimizerName, Pass, loss_and_gradients, losses
from sdpa.network import Block, Design
from sdpa.positions import ROPE_BASE
from sdpa.row_maps import NORMALIZERS, Normalizer, RowMap

HISTORY, HEADS = "history", "heads"
# Recorded values that span orders of magnitude between runs.
_GEOMETRIC = "embedding_gradient", "query_gradient", "query_gradient_median"
_RECORDS = 5  # of a run, after its start
_EARLY_STEPS = (
    400,
    1000,
    2000,
)  # steps before which a longer run records as well, to compare with short ones
_SMALL = 0.02
_EPSILON = 1e-6  # of the norms
_LOSS_OF_ENDED = 100.0
_UNSCALED, _SMALLEST_DIVISOR = Scaling.parse("unscaled"), 1e-6
_Size = Annotated[int, Ge(1), Le(2**13)]


@dataclass(frozen=True)
class Cell(ScaledCell):
    """One point of the grid: a decoder and an optimizer."""

    d_k: Annotated[_Size, Meaning("width of queries and keys of a head")]
    n_keys: Annotated[_Size, Ge(2), Meaning("tokens of a sequence")]
    learning_rate: Annotated[
        float, Gt(0), Le(1e6), Meaning("learning rate of all weights after the warm-up")
    ]
    scaling: tuple[Scaling, ...]
    initial: Annotated[
        Literal["unit", "small"],
        Meaning(
            "initial W_Q and W_K: unit (entries of q and k have variance 1) or small (N(0, 0.02^2))"
        ),
    ] = "unit"
    initial_divisor: Annotated[
        Scaling, Meaning("rule whose divisor divides the initial W_Q and W_K")
    ] = _UNSCALED
    rate_divisor: Annotated[
        Scaling, Meaning("rule whose divisor divides the learning rate of W_Q and W_K")
    ] = _UNSCALED
    gradient_divisor: Annotated[
        Scaling, Meaning("rule whose divisor divides the gradients at q and k, beside the scores'")
    ] = _UNSCALED
    layers: Annotated[int, Ge(1), Le(64), Meaning("blocks of attention and an MLP")] = 4
    n_heads: Annotated[_Size, Meaning("heads; those of values share the width")] = 1
    width: Annotated[
        _Size, Ge(2), Meaning("entries of the stream; the MLP has 4 times as many")
    ] = 64
    optimizer: Annotated[
        OptimizerName, Meaning("adam, or momentum: gradient descent with momentum 0.9")
    ] = "adam"
    warmup: Annotated[
        int, Ge(0), Le(2**20), Meaning("steps over which the learning rate rises; 0 for none")
    ] = 30
    decay: Annotated[
        Literal["none", "linear"],
        Meaning("learning rate after the warm-up: constant, or falling linearly to 0"),
    ] = "none"
    clip: Annotated[
        float,
        Ge(0),
        Le(1e6),
        Meaning(
            "largest norm of the gradient to all weights; larger ones shrink to it; 0 for none"
        ),
    ] = 0.0
    steps: Annotated[int, Ge(_RECORDS**2), Le(2**20), Meaning("steps of the optimizer")] = 400
    n_sequences: Annotated[_Size, Meaning("sequences of a batch")] = 8
    normalize: Annotated[
        Literal["none", "rms"],
        Meaning("q and k of each head as they are, or of r.m.s. 1 (QK-norm)"),
    ] = "none"
    gain: Annotated[
        Literal["fixed", "learned"], Meaning("factor of q in each head: 1, or learned from 1 on")
    ] = "fixed"
    softcap: SoftCap = 0.0
    normalizer: Annotated[
        Normalizer, Meaning("function from capped scores to weights: softmax or sigmoid")
    ] = NORMALIZERS["softmax"]
    text: Annotated[
        TextName,
        Meaning("text that is learned: Python's language reference or SciPy's docstrings"),
    ] = "python"
    readings: Annotated[
        Literal["quick", "careful"],
        Meaning(
            "what the last step is read from: 32 stretches of held-out text and single precision, or "
            "all of that text and double precision"
        ),
    ] = "quick"

    def weight_divisors(self) -> dict[str, float]:
        """The divisors of the initial W_Q and W_K, of their learning rate, and of gradients."""
        names = "initial_divisor", "rate_divisor", "gradient_divisor"
        return {name: getattr(self, name).divisor(self.d_k, self.n_keys) for name in names}

    def problem(self) -> str | None:
        """As `BaseCell.problem`."""
        if self.d_k % 2:
            return f"d_k: expected an even number, for RoPE, got {self.d_k}"
        if self.width % self.n_heads:
            return f"width: expected a multiple of n_heads = {self.n_heads}, got {self.width}"
        if self.decay == "linear" and self.warmup >= self.steps:
            return f"warmup: expected fewer steps than the {self.steps} in all, got {self.warmup}"
        for name, divisor in self.weight_divisors().items():
            if divisor < _SMALLEST_DIVISOR:
                least = f"expected a divisor of at least {_SMALLEST_DIVISOR}"
                return f"{name}: {least}, got {divisor:g}"
        return None

    @property
    def chunk_trials(self) -> int:
        """As `BaseCell.chunk_trials`: a run."""
        return 1

    @property
    def seconds_per_trial(self) -> float:
        """As `BaseCell.seconds_per_trial`."""
        tokens = self.n_sequences * self.n_keys
        work = 3 * tokens * self._matrices
        rows = 3 * tokens * self.n_keys * (self.n_heads * (self.d_k + 20) + self.width)
        a_step = self.layers * (8e-4 + 6e-11 * (work + rows)) + 6e-8 * tokens * self.width
        return len(self.scaling) * self.steps * a_step

    @property
    def memory(self) -> int:
        """As `BaseCell.memory`: weights with gradients and sums, and all steps of a batch."""
        tokens = max(self.n_sequences, TESTED) * self.n_keys
        per_token = 30 * self.width + 8 * self.n_heads * self.d_k + 12 * self.width
        rows = 4 * self.n_heads * tokens * self.n_keys
        return 4 * (self.layers * (8 * self._matrices + tokens * per_token + rows)) + 2**24

    @property
    def _matrices(self) -> int:
        """Entries of the matrices of a block."""
        return 2 * self.width * self.n_heads * self.d_k + 10 * self.width**2

    @property
    def recorded_steps(self) -> list[int]:
        """The steps before which a run records, from 0 to the last one; closer together at the
        start. Runs of more than 400 steps also record what shorter ones end with.

        >>> Cell(8, 16, 0.01, (), steps=300).recorded_steps
        [0, 12, 48, 108, 192, 300]
        >>> Cell(8, 16, 0.01, (), steps=4000).recorded_steps
        [0, 160, 400, 640, 1000, 1440, 2000, 2560, 4000]
        """
        shares = ((i / _RECORDS) ** 2 for i in range(_RECORDS + 1))
        also = {step for step in _EARLY_STEPS if step < self.steps}
        return sorted(also | {round(self.steps * share) for share in shares})

    def designs(self) -> Iterator[Design]:
        """The decoder under each rule."""
        for divisor in self.divisors():
            yield Design(
                self.n_heads,
                self.n_heads,
                divisor,
                gradient_divisor=self.weight_divisors()["gradient_divisor"],
                rope_base=ROPE_BASE,
                row_map=RowMap(self.softcap, normalizer=self.normalizer.name),
                epsilon=_EPSILON,
                qk_norm=self.normalize == "rms",
            )

    def recipe(self) -> Recipe:
        """The steps of every run."""
        return Recipe(
            self.optimizer,
            self.learning_rate,
            self.learning_rate / self.weight_divisors()["rate_divisor"],
            self.warmup,
            self.clip,
            self.steps if self.decay == "linear" else 0,
        )

    def start(self, rng: np.random.Generator) -> Decoder:
        """The initial weights."""
        width, key_width = self.width, self.n_heads * self.d_k
        vocabulary = len(characters(self.text))
        onto_stream = math.sqrt(2 * self.layers)

        def matrix(
            rows: int, columns: int, over: float = 1.0, deviation: float = 0.0
        ) -> FloatArray:
            drawn = rng.standard_normal((rows, columns), dtype=np.float32)
            drawn *= (deviation or 1 / math.sqrt(rows)) / over
            return drawn

        divisor = self.weight_divisors()["initial_divisor"]
        query_key_scale = divisor, _SMALL if self.initial == "small" else 0.0
        ones = np.ones((self.n_heads, 1, 1), np.float32)

        def block() -> Block:
            return Block(
                query=matrix(width, key_width, *query_key_scale),
                key=matrix(width, key_width, *query_key_scale),
                value=matrix(width, width),
                output=matrix(width, width, onto_stream),
                up=matrix(width, 4 * width),
                down=matrix(4 * width, width, onto_stream),
                query_gain=ones.copy() if self.gain == "learned" else None,
            )

        return Decoder(
            embedding=matrix(vocabulary, width, deviation=1.0),
            blocks=tuple(block() for _ in range(self.layers)),
            unembedding=matrix(width, vocabulary, deviation=_SMALL),
        )


@dataclass(frozen=True)
class Runs:
    """The runs of some trials: what each records at its steps."""

    run_values: FloatArray  # (trials, rules, recorded steps, RUN_VALUES)
    head_values: FloatArray  # (trials, rules, recorded steps, layers, heads, HEAD_VALUES)

    def merge(self, following: Self) -> Self:
        """The runs of both chunks, in order."""
        return type(self)(
            np.concatenate([self.run_values, following.run_values]),
            np.concatenate([self.head_values, following.head_values]),
        )


def measure(cell: Cell, trials: int, rng: np.random.Generator) -> Runs:
    """Train that many runs of each rule."""
    runs = [_trial(cell, rng) for _ in range(trials)]
    return Runs(*(np.stack(arrays) for arrays in zip(*runs, strict=True)))


def _trial(cell: Cell, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """One run of each rule; the start and the places of the batches are drawn first."""
    start = cell.start(rng)
    shape = cell.steps + 1, cell.n_sequences
    places = rng.integers(len(trained_on(cell.text)) - cell.n_keys, size=shape)
    with np.errstate(over="ignore", invalid="ignore"):  # `train` looks at each step
        runs = [_recorded(cell, design, start, places) for design in cell.designs()]
    run_values, heads = (np.array(values) for values in zip(*runs, strict=True))
    return run_values, heads


def run(
    cell: Cell, design: Design, start: Decoder, places: Tokens
) -> Iterator[tuple[int, Decoder, Pass]]:
    """A run from a start on batches from these places of the text, as `train` yields it."""
    batches = (stretches(trained_on(cell.text), batch, cell.n_keys + 1) for batch in places)
    return train(start, batches, design, cell.recipe())


def _recorded(
    cell: Cell, design: Design, start: Decoder, places: Tokens
) -> tuple[FloatArray, FloatArray]:
    """The values of a run and of its heads at the recorded steps."""
    recorded = cell.recorded_steps
    run_values = np.full((len(recorded), len(RUN_VALUES)), _LOSS_OF_ENDED)
    heads = np.full((len(recorded), cell.layers, cell.n_heads, len(HEAD_VALUES)), SMALLEST)
    for step, decoder, outcome in run(cell, design, start, places):
        if step in recorded:
            place = recorded.index(step)
            tested = held_out_stretches(cell.text, cell.n_keys)
            if step == cell.steps and cell.readings == "careful":
                tested = all_held_out(cell.text, cell.n_keys)
                last = stretches(trained_on(cell.text), places[step], cell.n_keys + 1)
                outcome = loss_and_gradients(decoder.astype(np.float64), last, design)
            run_values[place:] = _LOSS_OF_ENDED, embedding_gradient(outcome)
            run_values[place, 0] = _mean_loss(decoder, tested, design)
            heads[place:] = head_values(outcome, design.row_map)
    return run_values, heads


def _mean_loss(decoder: Decoder, tested: Tokens, design: Design) -> float:
    """The mean loss over stretches, `TESTED` of them at a time, so that memory stays bounded."""
    batches = [tested[first : first + TESTED] for first in range(0, len(tested), TESTED)]
    return float(np.concatenate([losses(decoder, batch, design) for batch in batches]).mean())


def _median(name: str, meaning: str, title: str, formula: str = "", unit: str = "") -> Metric:
    """The median over runs of a value of each."""
    return Metric(
        name,
        meaning,
        formula,
        title,
        "quantile",
        unit,
        "run",
        share=0.5,
        within=(0, math.inf),
        is_logarithmic=True,
    )


_SHOWN = {
    "embedding_gradient": ("r.m.s. gradient to the embedding of a token", "gradient to embeddings"),
    "spread": ("r.m.s. spread of the scaled scores within a row, over heads", "spread of scores"),
    "entropy_share": (
        "entropy of a row over that of equal weights, mean over heads",
        "entropy share",
    ),
    "max_weight": ("largest weight of a row, mean over heads", "largest weight"),
    "query_gradient": ("r.m.s. of |dL/dq| over all heads", "$|dL/dq|$, r.m.s."),
    "query_gradient_median": (
        "median head's median of |dL/dq|, not reliable below 1e-6",
        "$|dL/dq|$, median",
    ),
}


def _geometric_mean(values: FloatArray, axis: tuple[int, int]) -> FloatArray:
    return np.asarray(np.exp(np.log(values).mean(axis=axis)))


_OVER_HEADS: Mapping[str, Callable[..., FloatArray]] = {
    "mean": np.mean,
    "geometric": _geometric_mean,
    "largest": np.max,
}
METRICS = (
    _median(
        "final_loss",
        "cross-entropy of a character of the held-out text after the last step, median over runs; "
        "100 for a run whose numbers became too large",
        "loss after training (nats)",
        "mean of -ln p_c",
        "nats",
    ),
    Metric(
        "diverged",
        "share of runs that diverge: their loss ends above that of their start",
        "",
        "runs that diverge",
        per="run",
        kind="share",
        within=(0, 1),
    ),
    *(
        _median(
            f"{name}_{when}",
            f"{meaning}; {when} training, median over runs",
            f"{title}, {when} training",
        )
        for name, (meaning, title) in _SHOWN.items()
        for when in ("before", "after")
    ),
    *(
        _median(
            f"query_gradient_{name}_after",
            f"median of |dL/dq| of a head, {name} over heads; after training, median over runs",
            f"$|dL/dq|$, {name} over heads, after training",
        )
        for name in _OVER_HEADS
    ),
)


def _ends(runs: Runs) -> dict[str, FloatArray]:
    """The value of each metric in each run, (trials, rules)."""
    loss, to_embedding = np.moveaxis(runs.run_values, -1, 0)
    spread, share, largest, root, median = np.moveaxis(runs.head_values, -1, 0)
    heads = -2, -1
    series = {
        "embedding_gradient": to_embedding,
        "spread": np.sqrt((spread**2).mean(axis=heads)),
        "entropy_share": share.mean(axis=heads),
        "max_weight": largest.mean(axis=heads),
        "query_gradient": np.sqrt((root**2).mean(axis=heads)),
        "query_gradient_median": np.median(median, axis=heads),
    }
    return {
        "final_loss": loss[..., -1],
        "diverged": 1.0 * ((loss[..., -1] > loss[..., 0]) | (loss[..., -1] == _LOSS_OF_ENDED)),
        **{f"{name}_before": values[..., 0] for name, values in series.items()},
        **{f"{name}_after": values[..., -1] for name, values in series.items()},
        **{
            f"query_gradient_{name}_after": over(median[..., -1, :, :], axis=heads)
            for name, over in _OVER_HEADS.items()
        },
    }


def tabulate(cell: Cell, runs: Runs) -> dict[str, list[Row]]:
    """One row per rule; one per rule and recorded step; and one per rule, step, layer and head."""
    trials, ends = len(runs.run_values), _ends(runs)
    rows, history, heads = [], [], []
    for i, rule_cell in enumerate(cell.by_rule()):
        estimates: dict[str, tuple[float, float] | Quantile] = {}
        for metric in METRICS:
            values = ends[metric.name][:, i]
            if metric.kind == "quantile":
                histograms = Histograms.of(values.astype(float)[None, :, None])
                estimates[metric.name] = histograms.quantile(0, metric.share)
            else:
                estimates[metric.name] = float(values.mean()), _error(values)
        rows.append(metric_row(METRICS, rule_cell, trials, estimates))
        for place, step in enumerate(cell.recorded_steps):
            step_row = rule_cell.row_head() | {"trials": trials, "step": step}
            history.append(step_row | _means(RUN_VALUES, runs.run_values[:, i, place]))
            for layer, head in np.ndindex(cell.layers, cell.n_heads):
                where = {"layer": layer + 1, "head": head + 1}
                values = runs.head_values[:, i, place, layer, head]
                heads.append(step_row | where | _means(HEAD_VALUES, values))
    return {MEASURED: rows, HISTORY: history, HEADS: heads}


def _means(columns: tuple[Column, ...], values: FloatArray) -> Row:
    """The mean of each value over runs and its error; of gradients the geometric mean, with the
    error of the logarithm times it.
    """
    row: Row = {}
    for column, column_values in zip(columns, values.T, strict=True):
        if column.name in _GEOMETRIC:
            logarithms = np.log(column_values)
            mean = float(np.exp(logarithms.mean()))
            error = mean * _error(logarithms)
        else:
            mean, error = float(column_values.mean()), _error(column_values)
        row |= {column.name: mean, f"{column.name}_se": error}
    return row


def _error(values: FloatArray) -> float:
    return float(values.std(ddof=1) / math.sqrt(len(values)))


RUNS = Column("trials", "int", "runs of the rule, each from its own start")
_STEP = Column("step", "int", "steps taken before")


HISTORY_COLUMNS = (RULE_COLUMNS[0], RUNS, _STEP, *with_error_columns(RUN_VALUES, "runs"))
HEADS_COLUMNS = (
    *(RULE_COLUMNS[0], RUNS, _STEP),
    LAYER,
    Column("head", "int", "number of the head, from 1"),
    *with_error_columns(HEAD_VALUES, "runs"),
)

EXPERIMENT = Experiment(
    name="language",
    cell=Cell,
    columns=(RUNS, *metric_columns(METRICS)),
    metrics=METRICS,
    measure=measure,
    tabulate=tabulate,
    min_trials=2,
)
