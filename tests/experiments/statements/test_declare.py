"""Declarations: mistakes are refused with what was expected, and a function gets what it asks for by name."""

import pytest

from experiments.statements import declare, published
from experiments.statements.answer import Answer, Claimed, cases, numbers
from experiments.statements.declare import Statement, all_statements, open_statement, statement

NEW = "se-99"


def no_numbers() -> Answer:
    return cases({"here": True})


def of_d_k(d_k: int) -> Answer:
    return numbers(d_k)


@pytest.fixture(autouse=True)
def _registry(monkeypatch):
    """The statements that are declared, as a copy that a test may add to."""
    all_statements()
    monkeypatch.setattr(declare, "DECLARED", dict(declare.DECLARED))


@pytest.mark.parametrize(
    ("ids", "function", "given", "problem"),
    [
        ("qa-13", no_numbers, {}, "expected number 13 of qa once, got it twice"),
        (f"{NEW} {NEW}", no_numbers, {}, "expected number 99 of se once, got it twice"),
        ("", no_numbers, {}, "expected at least one id, got none"),
        ("nowhere-1", no_numbers, {}, "expected an id such as qa-13 or qa-13a of qa, .*, got 'nowhere-1'"),
        ("se_1", no_numbers, {}, "expected an id such as qa-13 or qa-13a of qa, .*, got 'se_1'"),
        ("qa-29", no_numbers, {}, "expected no number 29 of qa: sources.py leaves it out as analogy"),
        (NEW, no_numbers, {"claimed": "1"}, "expected no claimed numbers with the rule true, got '1'"),
        (NEW, no_numbers, {"rule": "digits"}, "expected claimed numbers with the rule digits, got ''"),
        (NEW, no_numbers, {"rule": "about", "claimed": "1 x"}, "expected a number as printed, got 'x'"),
        (NEW, no_numbers, {"rule": "exactly"}, "expected one of the rules true, digits, .*, got 'exactly'"),
        (NEW, no_numbers, {"severity": "grave"}, "expected one of the severities conceptual error, .*, got 'grave'"),
        (NEW, of_d_k, {}, "expected a function of tables, claimed, got one of d_k"),
        (NEW, of_d_k, {"given": {"n": 1}}, "expected a function of tables, claimed, n, got one of d_k"),
    ],
)
def test_a_mistake_in_a_declaration_is_refused(ids, function, given, problem):
    with pytest.raises(ValueError, match=f"statement '{ids}': {problem}"):
        statement(ids, says="So it is.", **({"severity": "slip"} | given))(function)


def test_the_id_of_an_open_statement_is_checked_too():
    with pytest.raises(ValueError, match="expected number 13 of qa once, got it twice"):
        open_statement("qa-13", says="Training needs it.")


def test_a_function_gets_what_it_asks_for_by_name():
    def asks(claimed: tuple[Claimed, ...], tables: dict, d_k: int) -> Answer:
        return numbers(claimed[0].value, tables["scaling"], d_k)

    asking = Statement(NEW, "It asks.", "0.5 7", "digits", "slip", asks, {"d_k": 64})
    assert asking.answer({"scaling": 3.0}).numbers == (0.5, 3.0, 64.0)


MODULE = f"""
from experiments.statements.answer import Answer, numbers
from experiments.statements.declare import statement

@statement("{NEW}", says="Two.", claimed="2", rule="count", severity="slip", given={{"x": 2}})
@statement("qa-98", says="Three.", claimed="3", rule="count", severity="slip", given={{"x": 3}})
def count(x: int) -> Answer:
    return numbers(x)
"""


def test_a_new_module_is_found_and_its_statements_come_by_source_and_number(tmp_path, monkeypatch):
    (tmp_path / "module_of_a_test.py").write_text(MODULE)
    before = [one.ids for one in all_statements()]
    monkeypatch.setattr(published, "__path__", [*published.__path__, str(tmp_path)])
    after = [one.ids for one in all_statements()]
    assert after == [*before[: before.index("notebook-07")], "qa-98", *before[before.index("notebook-07") :], NEW]
