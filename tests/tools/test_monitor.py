"""The recipes of docs/your-model.md for training, and the numbers of `sdpa.watch`, with PyTorch and
Transformers where installed.
"""

import re
import weakref

import numpy as np
import pytest
from numpy.testing import assert_allclose

import sdpa
from tests.tools.recipes import GROUPED, run_blocks

pytestmark = [pytest.mark.models, pytest.mark.filterwarnings("ignore")]

HEADS, N, D_K = 4, 9, 8
NUMBERS = 10  # of each head
TRIANGLE = np.tri(N, dtype=bool)
PADDED = TRIANGLE & (np.arange(N) < np.array([N, 6, 4])[:, None, None, None])


@pytest.fixture
def torch():
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    return torch


def attention(torch, **options):
    """A module of one call."""

    class Attention(torch.nn.Module):
        def forward(self, *qkv):
            return torch.nn.functional.scaled_dot_product_attention(*qkv, **options)

    return Attention()


def numbers(model, q, k):
    """The numbers of the heads of one call, by name, with all queries."""
    monitor = sdpa.watch(model, queries=10**9)
    model(q, k, k)
    by_name = {}
    for name, value in monitor.step().items():
        by_name.setdefault(name.split("/")[2], []).append(value)
    return {name: np.array(values) for name, values in by_name.items()}


@pytest.mark.parametrize(
    "options, mask",
    [
        ({"scale": 0.5}, np.ones((N, N), bool)),
        ({"is_causal": True, "enable_gqa": True}, TRIANGLE),
        ({"attn_mask": PADDED}, PADDED),
        ({"attn_mask": np.where(PADDED, 0, np.float32(-np.inf))}, PADDED),
        ({"attn_mask": np.where(PADDED, 0, np.float32(-1e4))}, PADDED),
    ],
)
def test_the_numbers_are_those_of_a_diagnosis(torch, options, mask):
    if "attn_mask" in options:
        options = {"attn_mask": torch.from_numpy(options["attn_mask"])}
    heads = (HEADS, HEADS // 2 if "enable_gqa" in options else HEADS)
    q, k = (2 * torch.randn(3, each, N, D_K) + 1 for each in heads)
    k[:, :, 0] = 5  # a sink
    logs = numbers(attention(torch, **options), q, k)
    divisor = 1 / options.get("scale", D_K**-0.5)
    diagnosis = sdpa.diagnose(q.numpy(), k.numpy(), divisor, mask)
    expected = {name: diagnosis[name].value for name in logs if name in diagnosis.estimates}
    expected |= {"spread": np.sqrt(diagnosis["row_variance"].value), "top_key": np.zeros(HEADS)}
    expected["top_key_share"] = diagnosis["most_attended_share"].value
    for name, values in expected.items():
        assert_allclose(logs[name], values, rtol=1e-5, err_msg=name)
    # the diagnosis knows the lengths of the keys, too
    exact = diagnosis["entropy_share"].gaussian
    assert_allclose(logs["entropy_share_exact"], exact, rtol=0, atol=0.03)


def test_a_watched_step_changes_nothing_and_keeps_nothing(torch):
    """Outputs, gradients and random numbers are the same to the bit."""
    layer = torch.nn.TransformerEncoderLayer(32, HEADS, 64, dropout=0.5, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    x = torch.randn(3, N, 32)

    def step():
        torch.manual_seed(1)
        output = model(x)
        return [output, *torch.autograd.grad(output.sum(), [*model.parameters()]), torch.rand(1)]

    plain = step()
    monitor = sdpa.watch(model, every=2)
    for length in (2 * NUMBERS * HEADS, 0, 2 * NUMBERS * HEADS):
        actual = step()
        assert all(map(torch.equal, plain, actual))
        assert len(monitor.step()) == length
    output = weakref.ref(actual[0])
    del actual
    assert output() is None
    monitor.close()
    step()
    assert monitor.step() == {}
    with pytest.warns(UserWarning, match="expected attention calls"):
        monitor.step()


def test_a_compiled_model_is_watched_and_its_inner_module_warns(torch):
    model = attention(torch)
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    qkv = torch.randn(3, 2, HEADS, N, D_K)
    inner = sdpa.watch(model)
    compiled(*qkv)
    with pytest.warns(UserWarning, match=re.escape("torch.compile returns")):
        inner.step()
    assert len(numbers(compiled, *qkv[:2])["spread"]) == HEADS


def llama(torch, implementation="sdpa", key_heads=HEADS):
    """A tiny model of sharp rows, and the other names of the recipes."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.LlamaConfig(**{**GROUPED, "num_key_value_heads": key_heads})
    model = transformers.LlamaForCausalLM(config)
    model.set_attn_implementation(implementation)
    for parameter in model.model.layers.parameters():
        torch.nn.init.normal_(parameter)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    return {"model": model, "optimizer": optimizer, "batches": [torch.arange(2 * N).reshape(2, N)]}


def test_the_recipe_of_a_loop(torch, capsys):
    model = torch.nn.TransformerEncoderLayer(32, HEADS, 64)
    names = {"model": model, "optimizer": torch.optim.SGD(model.parameters(), lr=0.1)}
    names |= {"loss_of": torch.nn.functional.mse_loss, "batches": [torch.randn(2, N, 3, 32)] * 101}
    run_blocks("A plain loop", names)
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["0", "100"]


@pytest.mark.parametrize("key_heads", [HEADS, 2])
def test_the_recipe_of_transformers_gives_the_same_by_both_implementations(torch, key_heads):
    fused, eager = (
        run_blocks("Transformers", llama(torch, name, key_heads))["logs"]
        for name in ("sdpa", "eager")
    )
    assert len(fused) == 3 * HEADS * NUMBERS
    assert eager == pytest.approx(fused, abs=1e-3)


def logs_of(torch, name, implementation="eager", kind="", **config):
    """Of a tiny model of Transformers with sharp rows."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(**config)
    config._attn_implementation = implementation
    model = getattr(transformers, f"{name}{kind}Model")(config).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter)
    monitor = sdpa.watch(model)
    model(torch.arange(2 * N).reshape(2, N))
    return monitor.step()


def test_the_position_bias_of_t5_is_seen_by_both_implementations(torch):
    sizes = {"vocab_size": 50, "d_model": 32, "d_kv": D_K, "num_heads": HEADS, "num_layers": 2}
    fused, eager = (logs_of(torch, "T5", name, "Encoder", **sizes) for name in ("sdpa", "eager"))
    assert len(fused) == 2 * HEADS * NUMBERS
    assert eager == pytest.approx(fused, rel=1e-4, abs=1e-4)


def test_a_soft_cap_is_seen_and_a_sink_is_not_recorded(torch):
    logs = logs_of(torch, "Gemma2", **GROUPED, attn_logit_softcapping=0.5)
    largest = [value for name, value in logs.items() if name.endswith("largest_score")]
    assert np.all(np.array(largest) <= 0.5)
    assert len(largest) == 3 * HEADS
    with pytest.warns(UserWarning, match=r"not recorded: layers \[0, 1, 2\], .* as beside a sink"):
        assert logs_of(torch, "GptOss", **GROUPED, num_local_experts=4) == {}
