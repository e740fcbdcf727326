"""The wrappers and the table of docs/audit.md, with PyTorch and JAX where installed."""

import re
from importlib.metadata import version

import numpy as np
import pytest

from sdpa import audit
from tests.tools.audited_functions import PAGE, of_page

pytestmark = [pytest.mark.models, pytest.mark.filterwarnings("ignore")]

TABLE = re.findall(r"^\| (PyTorch|JAX) ([\d.]+) \| (\w+) \| (\w+) \| (.+) \|$", PAGE, re.MULTILINE)
assert len(TABLE) >= 4  # no rows would be no tests


def wrapper(package):
    pytest.importorskip(package)
    return of_page(package)


def test_the_wrapper_of_pytorch_runs_and_its_mask_starts_at_the_first_key():
    assert audit(wrapper("torch"), mask="causal-first").findings == []


def in_torch(backend, arrays):
    torch = pytest.importorskip("torch")
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def attention(*given):
        tensors = (torch.from_numpy(x.astype(np.float32)).to(getattr(torch, arrays)) for x in given)
        with sdpa_kernel(getattr(SDPBackend, backend)):
            return torch.nn.functional.scaled_dot_product_attention(*tensors).float().numpy()

    return attention


@pytest.mark.parametrize("package, number, backend, arrays, expected", TABLE)
def test_a_row_of_the_table_is_found_again(package, number, backend, arrays, expected):
    function = wrapper("jax") if package == "JAX" else in_torch(backend, arrays)
    here = version("jax" if package == "JAX" else "torch")
    if not here.startswith(number):
        pytest.skip(f"the table is about {package} {number}, got {here}")
    report = audit(function, dtype=arrays)
    assert ", ".join(report.findings or ["none"]) == expected, report
