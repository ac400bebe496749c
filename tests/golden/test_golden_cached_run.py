"""The reference, graded with the bundled tolerances: at seed 0 all are known, at another none has to be."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance import known
from conformance.golden.measure import measured
from conformance.golden.tolerances import Table, Tolerances, file_of, known_tolerances, load
from conformance.language.arithmetic import Array
from conformance.locations import bundled
from conformance.pack.load import load_pack
from conformance.pack.model import Pack
from conformance.results.store import Writer
from conformance.runner import Events, Options, run
from conformance.targets import resolve_target

VARIANTS = ("minimal", "gpt2", "llama", "vaswani")


class Strict(Tolerances):
    """A store that takes nothing in: what it does not know must not be asked for."""

    def __setitem__(self, key: str, sigma: Array) -> None:
        raise AssertionError(f"{key} is not among the tolerances of golden/; run: conformance golden build")


@pytest.fixture(scope="module")
def pack() -> Pack:
    return load_pack(bundled("spec") / "forward-pass")


@pytest.fixture(scope="module")
def table(pack: Pack, tmp_path_factory: pytest.TempPathFactory) -> Table:
    """The bundled tolerances; where they are stale (another test says so), as they would be built."""
    bundled_table = known_tolerances(pack).table
    if bundled_table is not None:
        return bundled_table
    path = tmp_path_factory.mktemp("tolerances") / "file.safetensors"
    path.write_bytes(file_of(measured(pack, ["float32"]), "", pack))
    return load(path)


@pytest.fixture
def strict(table: Table, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(known, "known_tolerances", lambda _: Strict(table))
    return


def verdicts(pack: Pack, folder: Path, options: Options) -> dict[tuple[str, str, str], str]:
    """The verdict on each claim and case of the reference."""
    found: dict[tuple[str, str, str], str] = {}

    def note(line: object) -> None:
        if isinstance(line, dict) and line["kind"] == "verdict":
            found[line["claim"], line["case"], line["variant"]] = line["verdict"]

    target = resolve_target([str(bundled("adapters") / "numpy_reference.py")])
    with Writer(folder) as writer:
        summary = run(pack, target, options, writer, Events(line=note))
    assert summary.conforms
    return found


@pytest.mark.usefixtures("strict")
@pytest.mark.parametrize("variants", [*((v,) for v in VARIANTS), ()])
def test_no_tolerance_is_measured_at_seed_0(pack: Pack, tmp_path: Path, variants: tuple[str, ...]) -> None:
    found = verdicts(pack, tmp_path, Options(variants=variants, dtypes=("float32",)))
    assert {variant for _, _, variant in found} == set(variants or VARIANTS)
    assert set(found.values()) == {"pass"}


def test_a_fresh_seed_gives_the_same_verdicts(pack: Pack, tmp_path: Path) -> None:
    usual = verdicts(pack, tmp_path / "0", Options(variants=("llama",), dtypes=("float32",)))
    fresh = verdicts(pack, tmp_path / "fresh", Options(variants=("llama",), dtypes=("float32",), seed=None))
    assert fresh == usual
