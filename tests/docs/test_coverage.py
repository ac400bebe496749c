"""`docs/coverage.md` is of this pack and this zoo.

That the numbers are right takes a minute of grading: `python docs/coverage.py --check`.
"""

import importlib.util
import re

import pytest
from guide import ROOT

from conformance.cli.options import open_pack


@pytest.fixture(scope="module")
def coverage():
    spec = importlib.util.spec_from_file_location("coverage_page", ROOT / "docs" / "coverage.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def without_numbers(page: str) -> list[str]:
    """What grading does not decide."""
    return [re.sub(r"(?<=` )\d+|\| \d+ \|$|^\d+ .*turned red.*$", "", line) for line in page.splitlines()]


def test_statements_claims_and_files_are_those_of_the_pack_and_the_zoo(coverage):
    made = coverage.page(open_pack(None), {name: set() for name in coverage.WRONG})
    current = (ROOT / "docs" / "coverage.md").read_text(encoding="utf-8")
    assert without_numbers(current) == without_numbers(made), "run: python docs/coverage.py"


def test_each_claim_about_a_fault_is_counted(coverage):
    current = (ROOT / "docs" / "coverage.md").read_text(encoding="utf-8")
    counts = {m[1]: int(m[2]) for m in re.finditer(r"`(q\d+\.[\w-]+)` (\d+)", current)}
    for entry in coverage.WRONG.values():
        assert all(counts[claim] >= 1 for claim in entry["claims"])


def test_every_statement_that_a_test_can_settle_is_caught_in_the_act(coverage):
    """At least one claim of each is red on some wrong implementation."""
    current = (ROOT / "docs" / "coverage.md").read_text(encoding="utf-8")
    counts = {m[1]: int(m[2]) for m in re.finditer(r"`(q\d+\.[\w-]+)` (\d+)", current)}
    pack = open_pack(None)
    for statement in pack.statements.values():
        if statement.settled == "T":
            claims = [claim.id for claim in pack.claims.values() if statement.id in claim.statements]
            assert any(counts[claim] for claim in claims), statement.id
