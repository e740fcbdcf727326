"""The recipes of docs/your-model.md, and sizes of tiny models to run them on."""

import re

from tests.prose import part

PAGE = "docs/your-model.md"
SMALL = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "vocab_size": 50}
GROUPED = SMALL | {"intermediate_size": 64, "num_key_value_heads": 2, "head_dim": 8}


def run_blocks(heading, names):
    """Run the Python blocks of a part of the page among these names."""
    blocks = re.findall("^```python\n(.*?)^```", part(PAGE, heading), re.DOTALL | re.MULTILINE)
    assert blocks
    for block in blocks:
        exec(block, names)
    return names
