"""Loss and gradients of a trained layer, against central differences, plain attention, planted errors and PyTorch."""

import math

import numpy as np
import pytest

from sdpa import attention_gradients, scaled_dot_product_attention
from sdpa.training import TASKS, Batch, Weights, draw_batch, initial_weights, loss_and_gradients, train

N_SEQUENCES, N_KEYS, D_MODEL, D_K, D_V, N_CLASSES = 2, 7, 5, 3, 13, 11
DIVISORS = (3.0, 1.0, 0.2)
ASKED = [1, 2]  # tokens of a query, as many as its target has classes


def batch_of(n_asked: int) -> Batch:
    """Random tokens and queries, and targets of one class or of two."""
    rng = np.random.default_rng(n_asked)
    targets = np.zeros((N_SEQUENCES, N_CLASSES))
    targets[0, [4, 9][:n_asked]] = targets[1, [0, 4][:n_asked]] = 1 / n_asked
    shapes = (N_SEQUENCES, N_KEYS, D_MODEL), (N_SEQUENCES, D_MODEL)
    return Batch(*map(rng.standard_normal, shapes), targets, n_asked)


@pytest.fixture
def weights() -> Weights:
    """Random weights, different ones for each divisor."""
    rng = np.random.default_rng(17)
    shapes = (D_MODEL, D_K), (D_MODEL, D_K), (D_MODEL, D_V), (D_V, N_CLASSES)
    drawn = Weights(*(rng.standard_normal((len(DIVISORS), *shape)) for shape in shapes))
    return drawn._replace(W_Q=0.3 * drawn.W_Q)


def layers_of(weights: Weights) -> list[Weights]:
    """The weights of each layer alone."""
    return [Weights(*arrays) for arrays in zip(*weights, strict=True)]


def assert_gradients(gradients: Weights, weights: Weights, batch: Batch) -> None:
    """Each gradient of each layer against central differences of its mean loss, within 1e-6 of the largest entry.

    Rounding changes a difference by about 1e-10, a millionth of the smallest of these largest entries.
    """
    step = 1e-5
    for name, array in weights._asdict().items():
        differences = np.empty_like(array)
        for index in np.ndindex(array.shape[1:]):
            shift = np.zeros_like(array)
            shift[:, *index] = step  # of all layers at once: none sees the weights of another
            high, low = (
                loss_and_gradients(weights._replace(**{name: moved}), batch, DIVISORS).losses.mean(axis=-1)
                for moved in (array + shift, array - shift)
            )
            differences[:, *index] = (high - low) / (2 * step)
        for layer, (found, expected) in enumerate(zip(getattr(gradients, name), differences, strict=True)):
            scale = np.abs(expected).max()
            assert scale > 1e-4, f"{name} of layer {layer}: too small for differences"
            np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6 * scale, err_msg=f"{name} of layer {layer}")


@pytest.mark.parametrize("n_asked", ASKED)
def test_gradients_of_unsaturated_and_saturated_rows_equal_central_differences(weights, n_asked):
    batch = batch_of(n_asked)
    step = loss_and_gradients(weights, batch, DIVISORS)
    assert_gradients(step.gradients, weights, batch)
    largest = step.weights.max(axis=-1)
    assert largest[0].max() < 0.5
    assert largest[-1].max() > 0.99


@pytest.mark.parametrize("layer", range(len(DIVISORS)))
@pytest.mark.parametrize("name", Weights._fields)
def test_a_planted_sign_error_is_found(weights, name, layer):
    batch = batch_of(2)
    gradients = loss_and_gradients(weights, batch, DIVISORS).gradients
    getattr(gradients, name)[layer] *= -1
    with pytest.raises(AssertionError, match=f"{name} of layer {layer}"):
        assert_gradients(gradients, weights, batch)


@pytest.mark.parametrize("scale", [1.0, 30.0])
@pytest.mark.parametrize("n_asked", ASKED)
def test_it_is_attention_with_explicit_keys_and_values(weights, n_asked, scale):
    """Up to rows whose other weights are 1e-99."""
    weights, batch = weights._replace(W_Q=scale * weights.W_Q), batch_of(n_asked)
    found = loss_and_gradients(weights, batch, DIVISORS)
    for i, (layer, divisor) in enumerate(zip(layers_of(weights), DIVISORS, strict=True)):
        gradients = Weights(*map(np.zeros_like, layer))
        for n, (tokens, query, target) in enumerate(zip(*batch[:3], strict=True)):
            q, k, v = query[None] @ layer.W_Q, tokens @ layer.W_K, tokens @ layer.W_V
            output, rows = scaled_dot_product_attention(q, k, v, scaling=divisor, return_weights=True)
            to_logits = np.exp(output @ layer.W_O) / np.exp(output @ layer.W_O).sum() - target
            back = attention_gradients(q, k, v, to_logits @ layer.W_O.T, scaling=divisor)
            of_sequence = query[:, None] @ back.q, tokens.T @ back.k, tokens.T @ back.v, output.T @ to_logits
            for total, gradient in zip(gradients, of_sequence, strict=True):
                total += gradient / N_SEQUENCES
            np.testing.assert_allclose(found.q[i, n], q[0], rtol=1e-12)
            np.testing.assert_allclose(found.scores[i, n], (q @ k.T / divisor)[0], rtol=1e-11)
            np.testing.assert_allclose(found.weights[i, n], rows[0], rtol=1e-10)
            np.testing.assert_allclose(found.logits[i, n], (output @ layer.W_O)[0], rtol=1e-11)
            np.testing.assert_allclose(found.score_gradients[i, n], back.scores[0], rtol=1e-9)
        for name, expected in gradients._asdict().items():
            scale = np.abs(expected).max()
            np.testing.assert_allclose(getattr(found.gradients, name)[i], expected, rtol=1e-9, atol=1e-12 * scale)


@pytest.mark.parametrize("d_k", [1, 7, 64, 512])
def test_layers_side_by_side_are_each_layer_alone_to_the_bit(d_k):
    rng = np.random.default_rng(d_k)
    batch, drawn = draw_batch(rng, "pair", 13, 11), [initial_weights(rng, d_k, "unit") for _ in DIVISORS]
    together = loss_and_gradients(Weights(*map(np.stack, zip(*drawn, strict=True))), batch, DIVISORS)
    for i, (layer, divisor) in enumerate(zip(drawn, DIVISORS, strict=True)):
        alone = loss_and_gradients(layer, batch, divisor)
        for name in ("losses", "logits", "q", "scores", "weights", "score_gradients"):
            np.testing.assert_array_equal(getattr(alone, name), getattr(together, name)[i], strict=True)
        for one, other in zip(alone.gradients, together.gradients, strict=True):
            np.testing.assert_array_equal(one, other[i], strict=True)


@pytest.mark.parametrize(("optimizer", "learning_rate"), [("adam", 0.03), ("sgd", 0.3)])
@pytest.mark.parametrize("task", TASKS)
def test_runs_agree_with_pytorch(task, optimizer, learning_rate):
    """Its own attention with keys, autograd and optimizer, in double precision; saturated runs would drift apart."""
    torch = pytest.importorskip("torch", reason="PyTorch is not in the lock; install it to run this comparison")
    n_sequences, n_keys, d_k, steps = 13, 11, 7, 50
    divisors, attend = (1.0, math.sqrt(7), 7.0), torch.nn.functional.scaled_dot_product_attention
    options = {"learning_rate": learning_rate, "steps": steps, "n_sequences": n_sequences}
    runs = train(np.random.default_rng(5), task, d_k, n_keys, divisors, optimizer=optimizer, **options)
    losses = np.array([run.at.losses.mean(axis=-1) for run in runs])
    for divisor, found in zip(divisors, losses.T, strict=True):
        rng = np.random.default_rng(5)
        weights = [torch.tensor(array, requires_grad=True) for array in initial_weights(rng, d_k, "unit")]
        w_q, w_k, w_v, w_o = weights
        method = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}[optimizer](weights, lr=learning_rate)
        theirs = []
        for _ in range(steps + 1):
            tokens, queries, targets = map(torch.tensor, draw_batch(rng, task, n_sequences, n_keys)[:3])
            output = attend(queries[:, None] @ w_q, tokens @ w_k, tokens @ w_v, scale=1 / divisor)
            loss = torch.nn.functional.cross_entropy(output[:, 0] @ w_o, targets)
            theirs.append(loss.item())
            method.zero_grad()
            loss.backward()
            method.step()
        np.testing.assert_allclose(found, theirs, rtol=0, atol=1e-8)
        assert found[-10:].mean() < found[0] - 0.1
