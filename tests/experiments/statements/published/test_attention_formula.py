"""Statements on attention as a whole: their conditions can fail."""

from experiments.statements.published import attention_formula


def test_shapes_other_than_that_of_the_input_are_found(judge, monkeypatch):
    assert judge("qa-37") == "holds"
    narrow = attention_formula.ScaledDotProductAttention(6, 4, 4, seed=99)
    monkeypatch.setattr(attention_formula, "ScaledDotProductAttention", lambda *_, seed: narrow)  # noqa: ARG005
    assert judge("qa-37") == "wrong"
