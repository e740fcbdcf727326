"""The types of arrays, and the conversion of the arguments of public functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.floating]
Array = npt.NDArray[Any]  # of numbers of any type
BoolArray = npt.NDArray[np.bool_]
IntArray = npt.NDArray[np.integer]


def as_array(values: npt.ArrayLike) -> Array:
    """The values as an array; tensors of PyTorch without their gradient, and bfloat16 as float32."""
    tensor: Any = values
    if hasattr(tensor, "detach"):
        tensor = tensor.detach().cpu()
        if str(tensor.dtype) == "torch.bfloat16":
            tensor = tensor.float()
    return np.asarray(tensor)


def as_float(name: str, values: npt.ArrayLike, min_ndim: int = 1) -> FloatArray:
    """The values as an array of floats, or a ValueError that names the values received.

    Integers become float64; float16 and bfloat16 become float32, because sums of float16 overflow
    at 65504 and those of bfloat16 have 8 binary digits.
    """
    array = as_array(values)
    if array.dtype.kind in "iu":
        array = array.astype(np.float64)
    if array.dtype.name in ("float16", "bfloat16"):  # the latter is a type of an optional package
        array = array.astype(np.float32)
    if array.dtype.kind != "f":
        raise ValueError(f"{name}: expected real numbers, got an array of {array.dtype}")
    if array.ndim < min_ndim:
        raise ValueError(f"{name}: expected at least {min_ndim} axes, got shape {array.shape}")
    return array


def largest_scores(name: str, scores: FloatArray) -> FloatArray:
    """The largest score of each row, (...); ValueError, which names the row, unless it is finite."""
    largest = np.asarray(scores.max(axis=-1))
    wrong = np.argwhere(~np.isfinite(largest))
    if len(wrong):
        row = tuple(wrong[0])
        raise ValueError(
            f"{name}: expected every row to have a finite largest score, got {largest[row]} in "
            f"{row_label(row)}"
        )
    return largest


def keys_of_scores(scores: FloatArray, keys: npt.ArrayLike) -> FloatArray:
    """The keys behind scores (..., n_queries, n_keys); ValueError unless they are (..., n_keys,
    d_k).
    """
    given = as_float("keys", keys)
    expected = (*scores.shape[:-2], scores.shape[-1])
    if given.shape[:-1] != expected:
        raise ValueError(
            f"keys: expected ({', '.join(map(str, expected))}, d_k), got {given.shape}"
        )
    return given


def gradients_to_weights(
    scores: FloatArray, gradients: npt.ArrayLike, keys: object | None
) -> FloatArray:
    """The gradients to the weights of scores; ValueError for another shape, or without keys."""
    given = as_float("gradients", gradients)
    if keys is None or given.shape != scores.shape:
        got = f"{given.shape}{' without keys' if keys is None else ''}"
        raise ValueError(f"gradients: expected {scores.shape} beside keys, got {got}")
    return given


def row_label(index: tuple[int | np.integer, ...]) -> str:
    """The name of an index in errors: `row (0, 2)`."""
    return f"row ({', '.join(str(int(i)) for i in index)})" if index else "the only row"
