"""The guide to writing claims does what it says."""

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from guide import ROOT, Block, blocks, follow

from conformance.checked_pack import open_checked
from conformance.cli.options import open_pack
from conformance.golden.tolerances import known_tolerances
from conformance.grading import Grader
from conformance.judging.bench import Bench
from conformance.judging.count import PARAMETER_SHAPES
from conformance.judging.kinds import OF_GRAPHS
from conformance.locations import bundled
from conformance.pack.documents import KINDS
from conformance.plan.items import entry_point, plan
from conformance.plan.selection import parse_selection
from conformance.plan.variants import resolve
from conformance.selftest import Laboratory, Task
from conformance.session import Session

GUIDE = blocks("writing-claims.md")
_INTO = re.compile(r"# (q\d+): red on ([\w-]+)$")
EXAMPLES = {m[2]: (block, m[1]) for block in GUIDE if (m := _INTO.match(block.first))}
"""Examples of kinds by what they turn red: the block, and the question's file that it belongs into."""
BEHAVIOURS = ("accepts-anything", "miscounts")


def identifier(block: Block) -> str:
    return re.search(r"- id: (\S+)", block.text)[1]


def test_the_pack_from_nothing(tmp_path):
    ran = list(follow([block for block in GUIDE if not _INTO.match(block.first)], tmp_path))
    assert sum(command.startswith("conformance selftest") for command in ran) == 2
    assert sum(command.startswith("conformance run") for command in ran) == 2


def test_there_is_an_example_of_every_kind(pack):
    examples = [identifier(block) for block, _ in EXAMPLES.values()]
    assert {pack.claims[claim].kind for claim in examples} == set(KINDS) - OF_GRAPHS
    assert len(examples) == len(EXAMPLES) == len(set(examples))


@pytest.fixture(scope="session")
def pack(tmp_path_factory):
    """The bundled pack with all examples in it, as the guide says."""
    folder = tmp_path_factory.mktemp("guide") / "pack"
    shutil.copytree(bundled("spec") / "forward-pass", folder)
    for block, question in EXAMPLES.values():
        (file,) = (folder / "claims").glob(f"{question}-*.yaml")
        with file.open("a", encoding="utf-8") as text:
            text.write("\n" + block.text.partition("\n")[2])
    return open_checked(folder, mistakes=True)


def verdicts(pack, path: Path, claim: str) -> set[str]:
    """What an adapter gets for a claim, everywhere it applies."""
    names = [*(entry_point(operation) for operation in pack.operations.values()), PARAMETER_SHAPES]
    with Session(path, names=names) as session:
        offer = session.open()
        graded = resolve(pack, offer.variants, [])
        grader = Grader.of(pack, Bench(session, offer, store=known_tolerances(pack)), graded, 0)
        grader.namer = None
        items = plan(pack, offer, graded, offer.dtypes[:1], parse_selection([claim], pack)).items
        return {verdict.judgement.verdict for verdict in grader.verdicts(items)}


@pytest.mark.parametrize("red", EXAMPLES)
def test_an_example_passes_on_the_reference_and_fails_on_what_it_is_about(red, pack):
    claim = identifier(EXAMPLES[red][0])
    assert verdicts(pack, bundled("adapters") / "numpy_reference.py", claim) == {"pass"}
    if red in BEHAVIOURS:
        alone = replace(pack, claims={claim: pack.claims[claim]})
        assert Laboratory(alone).trial(Task(red)).catches
    else:
        found = verdicts(pack, ROOT / f"tests/zoo/wrong/{red}.py", claim)
        assert found & {"fail", "error", "timeout"}


def test_the_commands_at_the_end_are_there():
    (last,) = [block for block in GUIDE if block.language == "sh"]
    for line in last.text.splitlines():
        program, *words = line.split()
        if program == "python":
            assert (ROOT / words[0]).is_file()
        elif words[0] == "run":
            assert (ROOT / words[1]).is_file()
            assert words[3] in open_pack(None).claims
