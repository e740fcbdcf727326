"""The core experiment: what does a divisor do to the scores, the softmax and its gradients?

A cell has a joint law of q and k (`measuring.sampling`). `measuring.kernel` computes a trial
of it, from the draw to the means: all metrics of attention rows. Here theory knows the medians of
norms, too.
"""

from dataclasses import dataclass, replace

from experiments.measuring.kernel import Kernel
from experiments.measuring.metric import Exact, from_theory
from experiments.measuring.row_metrics import METRICS as ROW_METRICS
from experiments.measuring.row_metrics import KernelMetric, row_arguments
from experiments.measuring.sampling import SampledCell

_FORMULA = (
    "lattice rule over |q| and the scores of a row (sdpa.theory.norm_quantiles); empty unless "
    "entries are gaussian and independent, of one variance and as drawn"
)
_ACCURACY = {  # of medians above `verdicts.LEAST_MEDIAN`
    "jacobian_norm": 1e-3,
    "weight_jacobian_norm": 3e-3,
    "query_gradient_norm": 1e-2,
}


@dataclass(frozen=True)
class Cell(SampledCell):
    """One point of the grid."""


def _with_exact_median(metric: KernelMetric) -> KernelMetric:
    if metric.name == "score_kurtosis":  # normalized vectors of one entry may have equal scores
        return replace(metric, may_be_empty=True)
    norm = metric.name.removesuffix("_median")
    if metric.kind != "quantile" or norm not in _ACCURACY:
        return metric
    value = from_theory("attention_medians", row_arguments, norm)
    return replace(metric, exact=Exact(_FORMULA, value, _ACCURACY[norm]))


METRICS = tuple(map(_with_exact_median, ROW_METRICS))
KERNEL = Kernel[Cell](METRICS)
EXPERIMENT = KERNEL.experiment("saturation", Cell)
