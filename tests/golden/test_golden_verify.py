import random
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import yaml
from click.testing import CliRunner
from golden_helpers import CASES, files, flip
from safetensors.numpy import load_file

from conformance.cli import main
from conformance.golden import manifest, tolerances
from conformance.golden.build import build
from conformance.golden.files import decoded, digest, encoded
from conformance.golden.verify import Report, verify
from conformance.pack.load import load_pack
from conformance.pack.model import Pack

SOFTMAX = "softmax/softmax-scores-with-mask.safetensors"
LONG = "attention/attention-long.safetensors"
HASH = r"[0-9a-f]{64}"


def said(report: Report) -> str:
    return "\n".join(map(str, report.problems))


def rewrite(folder: Path, name: str, tensor: str, change: float) -> None:
    """A file whose manifest agrees with it, and one of whose numbers is another."""
    tensors, told = decoded(folder / name, name)
    array = tensors[tensor].copy()
    array.flat[np.argmax(np.abs(array))] *= 1 + change
    data = encoded({**tensors, tensor: array}, told)
    (folder / name).write_bytes(data)
    listed = yaml.safe_load((folder / manifest.NAME).read_text())
    listed["files"][name] |= {"sha256": digest(data), "bytes": len(data)}
    (folder / manifest.NAME).write_text(yaml.safe_dump(listed))


def test_what_was_built_is_as_built(pack: Pack, built: Path) -> None:
    report = verify(pack, built)
    assert said(report) == ""
    assert (report.files, report.inexact, report.unchecked) == (8, 0, 0)
    assert report.bytes == sum(len(data) for name, data in files(built).items() if name != manifest.NAME)


@pytest.mark.parametrize("name", [SOFTMAX, LONG, tolerances.NAME])
def test_one_bit_anywhere_is_refused_with_both_hashes(pack: Pack, golden: Path, name: str) -> None:
    whole = (golden / name).read_bytes()
    places = random.Random(name)
    for bit in (0, 64, -1, *(places.randrange(8 * len(whole)) for _ in range(5))):
        flip(golden / name, bit)
        found = verify(pack, golden)
        expected, now = digest(whole), digest((golden / name).read_bytes())
        assert [error.name for error in found.problems] == [name]
        assert f"sha256 expected {expected}, found {now}" in said(found), bit
        flip(golden / name, bit)
    assert verify(pack, golden).passed


def test_a_truncated_file_says_so(pack: Pack, golden: Path) -> None:
    whole = (golden / LONG).read_bytes()
    for length in (0, 7, 100, len(whole) - 1):
        (golden / LONG).write_bytes(whole[:length])
        found = verify(pack, golden)
        assert re.fullmatch(
            rf"{re.escape(LONG)}: is truncated to {length} of {len(whole)} bytes; sha256 expected {HASH}, found {HASH}",
            said(found),
        )


def test_a_missing_a_longer_and_an_unknown_file(pack: Pack, golden: Path) -> None:
    (golden / SOFTMAX).unlink()
    (golden / LONG).write_bytes((golden / LONG).read_bytes() + b"\0")
    shutil.copy(golden / "rope" / "rope-plain-half.safetensors", golden / "rope" / "mine.safetensors")
    (golden / "notes.txt").write_text("mine")
    (golden / "README.md").write_text("may be here")
    found = verify(pack, golden)
    assert {error.name: error.problem.split(";")[0] for error in found.problems} == {
        SOFTMAX: "is missing",
        LONG: f"has {(golden / LONG).stat().st_size} bytes, not {(golden / LONG).stat().st_size - 1}",
        "notes.txt": "is unknown to the manifest",
        "rope/mine.safetensors": "is unknown to the manifest",
    }
    # What is missing is found as none, and what is unknown is expected as none.
    assert len(re.findall(HASH, said(found))) == 5


def other_version(pack: Pack, folder: Path) -> Pack:
    """The same pack under another version."""
    shutil.copytree(pack.folder, folder)
    head = folder / "pack.yaml"
    head.write_text(
        head.read_text(encoding="utf-8").replace("version: 0.1.0", "version: 0.0.9"), encoding="utf-8"
    )
    return load_pack(folder)


def test_goldens_of_another_pack_version_are_refused(pack: Pack, built: Path, tmp_path: Path) -> None:
    older = other_version(pack, tmp_path / "older")
    found = verify(older, built)
    assert (
        f"is of forward-pass 0.1.0, this is forward-pass 0.0.9: sha256 expected {pack.digest}, found {older.digest}"
        in said(found)
    )
    assert f"{SOFTMAX}: says pack_version: '0.1.0', and the pack says '0.0.9'" in said(found)


def test_one_file_of_another_pack_version_is_refused(pack: Pack, golden: Path, tmp_path: Path) -> None:
    build(other_version(pack, tmp_path / "older"), tmp_path / "theirs", CASES[:1], [])
    shutil.copy(tmp_path / "theirs" / SOFTMAX, golden / SOFTMAX)
    found = verify(pack, golden)
    assert re.fullmatch(
        rf"{re.escape(SOFTMAX)}: is of pack version 0.0.9, this is 0.1.0; sha256 expected {HASH}, found {HASH}",
        said(found),
    )


def test_a_pack_that_was_edited_since_is_noticed(pack: Pack, built: Path, tmp_path: Path) -> None:
    shutil.copytree(pack.folder, tmp_path / "edited")
    with (tmp_path / "edited" / "cases" / "rope.yaml").open("a", encoding="utf-8") as file:
        file.write("# a remark\n")
    edited = load_pack(tmp_path / "edited")
    assert said(verify(edited, built)) == (
        f"manifest.yaml: the pack's files have changed since: sha256 expected {pack.digest}, found {edited.digest}; "
        "run: conformance golden build"
    )


def test_cases_published_since_and_no_longer_published_are_noticed(
    pack: Pack, built: Path, tmp_path: Path
) -> None:
    shutil.copytree(pack.folder, tmp_path / "edited")
    cases = tmp_path / "edited" / "cases"
    for name, old, new in (
        ("rope.yaml", "    published: true\n", ""),
        ("softmax.yaml", "  - id: softmax-vector\n", "  - id: softmax-vector\n    published: true\n"),
    ):
        text = (cases / name).read_text(encoding="utf-8")
        assert old in text
        (cases / name).write_text(text.replace(old, new), encoding="utf-8")
    found = said(verify(load_pack(tmp_path / "edited"), built))
    assert "softmax/softmax-vector.safetensors: is a published case's and not in the manifest" in found
    assert "rope/rope-plain-half.safetensors: is in the manifest and no published case's" in found


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (None, "is missing in"),
        ("", "is no manifest"),
        ("{", "is no manifest"),
        ("\x00", "is no manifest"),
        ("- a\n", "is no manifest"),
        ("schema: 1\n", "missing required field"),
        (b"\xff\xfe", "cannot be read"),
    ],
)
def test_a_manifest_that_is_none(pack: Pack, golden: Path, text: str | bytes | None, problem: str) -> None:
    path = golden / manifest.NAME
    path.unlink()
    if text is not None:
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    found = verify(pack, golden)
    assert [error.name for error in found.problems] == [manifest.NAME]
    assert problem in said(found)


def test_a_manifest_with_an_unknown_field_or_of_another_schema(pack: Pack, golden: Path) -> None:
    path = golden / manifest.NAME
    text = path.read_text()
    path.write_text(text + "more: 1\n")
    assert "unknown field `more`" in said(verify(pack, golden))
    path.write_text(text.replace("schema: 1", "schema: 2"))
    assert "has schema 2; this version reads 1" in said(verify(pack, golden))


def test_a_number_that_the_program_does_not_make_is_refused_though_every_hash_fits(
    pack: Pack, golden: Path
) -> None:
    rewrite(golden, SOFTMAX, "step0/output/output", 1e-12)
    found = verify(pack, golden)
    assert re.search(
        rf"{re.escape(SOFTMAX)}: 'step0/output/output' is recomputed [0-9.e+]+ tolerances away", said(found)
    )


def test_an_input_that_the_case_does_not_draw_is_refused(pack: Pack, golden: Path) -> None:
    rewrite(golden, LONG, "given/v", 1e-6)
    assert f"{LONG}: 'given/v' is another than the case draws" in said(verify(pack, golden))


def test_last_bits_may_differ_as_sums_in_another_order_do(pack: Pack, golden: Path) -> None:
    rewrite(golden, LONG, "step0/output/output", 2.0**-52)
    found = verify(pack, golden)
    assert said(found) == ""
    omitted = manifest.load(golden).files[LONG].omitted
    assert (found.inexact, found.unchecked) == (1, len(omitted))


def test_hashes_of_left_out_tensors_are_recomputed(pack: Pack, golden: Path) -> None:
    path = golden / manifest.NAME
    old = manifest.load(golden).files[LONG].omitted["step0/tap/scores"]
    path.write_text(path.read_text().replace(old, "f" * 64))
    assert f"{LONG}: 'step0/tap/scores', of which only the hash is kept, is recomputed as another" in said(
        verify(pack, golden)
    )


def test_what_a_file_says_of_itself_is_checked(pack: Pack, golden: Path) -> None:
    tensors, told = decoded(golden / SOFTMAX, SOFTMAX)
    data = encoded(tensors, {**told, "step0/output/output": "batch head over query"})
    (golden / SOFTMAX).write_bytes(data)
    path = golden / manifest.NAME
    entry = manifest.load(golden).files[SOFTMAX]
    path.write_text(path.read_text().replace(entry.sha256, digest(data)))
    assert (
        "says step0/output/output: 'batch head over query', and the pack says 'batch head query over'"
        in said(verify(pack, golden))
    )


def test_stale_tolerances_are_reported(pack: Pack, golden: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("conformance.golden.verify.dependence", lambda _: "f" * 64)
    found = verify(pack, golden)
    assert [error.name for error in found.problems] == [tolerances.NAME]
    assert "is stale, so it is ignored" in said(found)


def test_goldens_without_tolerances_are_reported(pack: Pack, golden: Path) -> None:
    build(pack, golden, CASES, [])
    assert said(verify(pack, golden)).startswith(f"{tolerances.NAME}: is not there")


def test_the_command_ends_with_0_or_1(pack: Pack, golden: Path) -> None:
    ask = ["golden", "verify", str(golden), "--pack", str(pack.folder)]
    result = CliRunner().invoke(main, ask)
    assert result.exit_code == 0, result.output
    assert re.fullmatch(r"golden: 8 files, \d\.\d\d MB, of forward-pass 0\.1\.0: as built\n", result.output)
    flip(golden / SOFTMAX, -1)
    (golden / LONG).unlink()
    result = CliRunner().invoke(main, ask)
    assert result.exit_code == 1
    lines = result.output.splitlines()
    assert len(lines) == 2
    assert all(
        re.match(r"golden: \S+\.safetensors: (has changed|is missing); sha256 expected ", line)
        for line in lines
    )


def test_a_folder_that_is_not_there_is_status_1(pack: Pack, tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["golden", "verify", str(tmp_path / "no"), "--pack", str(pack.folder)])
    assert result.exit_code == 1
    assert "manifest.yaml: is missing in" in result.output


def test_the_goldens_of_this_repository_are_as_built() -> None:
    result = CliRunner().invoke(main, ["golden", "verify"])
    assert result.exit_code == 0, result.output


def test_numbers_of_the_reader_are_the_librarys(built: Path) -> None:
    for path in built.rglob("*.safetensors"):
        ours, theirs = decoded(path, path.name)[0], load_file(path)
        assert set(ours) == set(theirs)
        assert all(
            np.array_equal(ours[name], theirs[name], equal_nan=ours[name].dtype.kind == "f") for name in ours
        )
