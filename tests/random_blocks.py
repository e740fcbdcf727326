"""Blocks of small transformers with random arrays."""

WIDTH, TOKENS, D_K, D_V, HIDDEN = 5, 7, 2, 3, 11
MLPS = {"none": (), "relu": ("up", "down"), "gated": ("gate", "up", "down")}


def random_arrays(design, mlp, rng):
    """The arrays of a block, by name."""
    shapes = {
        "query": (WIDTH, design.n_heads * D_K),
        "key": (WIDTH, design.n_key_heads * D_K),
        "value": (WIDTH, design.n_key_heads * D_V),
        "output": (design.n_heads * D_V, WIDTH),
        "query_gain": (design.n_heads, 1, 1),
    }
    mlp_shapes = {"gate": (WIDTH, HIDDEN), "up": (WIDTH, HIDDEN), "down": (HIDDEN, WIDTH)}
    shapes |= {name: mlp_shapes[name] for name in MLPS[mlp]}
    if design.norm != "none":
        shapes["attention_gain"] = (WIDTH,)
        if MLPS[mlp]:
            shapes["mlp_gain"] = (WIDTH,)
    return {name: 0.5 * rng.standard_normal(shape) for name, shape in shapes.items()}
