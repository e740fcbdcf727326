"""Keys of a sweep in the words of other programs and papers, and values that another key takes, for suggestions."""

from sdpa.arithmetic import FORMATS

OTHER_WORDS = {
    "causal": "mask: causal",
    **dict.fromkeys(("dim", "dimension", "dimensions", "head_dim", "width"), "d_k"),
    **dict.fromkeys(("length", "seq_len", "tokens"), "n_keys"),
    **dict.fromkeys(("repeats", "samples", "seeds"), "trials"),
    "qk_norm": "normalize: l2",
    "rho": "correlation",
    "std": "query_std or key_std",
    "input_std": "query_std or key_std",
    "mean": "query_mean or key_mean",
    "distribution": "inputs",
    "scale": "scaling",
    "temperature": "scaling",
    "init": "experiment: initialisation",
    "dtype": "arithmetic",
    "format": "arithmetic",
    "number_format": "arithmetic",
    # In other programs, `precision` is the number format.
    **{f"precision: {name}": f"arithmetic: {name}" for name in FORMATS},
}
