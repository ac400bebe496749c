from pathlib import Path

import numpy as np
import pytest
from golden_helpers import CASES, build_small, files
from safetensors import safe_open
from safetensors.numpy import load_file

from conformance.golden import build as building
from conformance.golden import manifest
from conformance.golden.build import build
from conformance.golden.contents import goldens
from conformance.golden.files import GoldenError, digest, encoded
from conformance.language.arithmetic import Float64
from conformance.pack.model import Pack


def test_each_case_has_a_file_for_each_variant_in_which_it_is_another(built: Path) -> None:
    listed = manifest.load(built)
    assert {name: entry.variants for name, entry in listed.files.items()} == {
        "softmax/softmax-scores-with-mask.safetensors": ["minimal", "gpt2", "llama", "vaswani"],
        "rope/rope-plain-half.safetensors": ["minimal", "gpt2", "llama", "vaswani"],
        "rope/rope-plain-interleaved.safetensors": ["minimal", "gpt2", "vaswani"],
        "attention/attention-long.safetensors": ["minimal", "gpt2", "llama", "vaswani"],
        "multi_head_attention/mha-worked-example-minimal.safetensors": ["minimal"],
        "multi_head_attention/mha-worked-example-gpt2.safetensors": ["gpt2"],
        "multi_head_attention/mha-worked-example-vaswani.safetensors": ["vaswani"],
    }
    assert listed.files["rope/rope-plain-interleaved.safetensors"].choices == {"rope_layout": "interleaved"}


def test_building_twice_gives_the_same_bytes(pack: Pack, built: Path, tmp_path: Path) -> None:
    build_small(pack, tmp_path / "again")
    assert files(tmp_path / "again") == files(built)


def test_processes_make_no_difference(pack: Pack, tmp_path: Path) -> None:
    for jobs in (1, 2):
        build(pack, tmp_path / str(jobs), CASES[:1], ["float32", "float64"], jobs=jobs)
    assert files(tmp_path / "1") == files(tmp_path / "2")


def test_the_manifest_says_what_there_is(pack: Pack, built: Path) -> None:
    listed = manifest.load(built)
    assert (listed.pack, listed.pack_version, listed.pack_digest) == (pack.id, pack.version, pack.digest)
    assert listed.seed == 0
    for name, (sha256, size) in listed.hashes().items():
        data = (built / name).read_bytes()
        assert (digest(data), len(data)) == (sha256, size)
        if name in listed.files:
            assert listed.files[name].tensors == len(load_file(built / name))


def test_a_file_holds_inputs_parameters_and_every_tensor_of_the_exact_reading(
    pack: Pack, built: Path
) -> None:
    for golden in goldens(pack):
        found = load_file(built / golden.name)
        (step,) = golden.scenario.read(Float64())
        wanted = {f"step0/output/{name}": t.array for name, t in step.outputs.items()}
        if not golden.long:
            wanted |= {f"step0/tap/{n}": t.array for n, t in step.taps.items() if n not in step.outputs}
        inputs = {f"given/{n}": t.array for n, t in golden.scenario.given.items()}
        inputs |= {f"parameters/{n}": t.array for n, t in golden.scenario.parameters.items()}
        assert set(found) == {*wanted, *inputs}
        for name, array in {**wanted, **inputs}.items():
            np.testing.assert_array_equal(found[name], array, err_msg=f"{golden.name} {name}")
        assert all(found[name].dtype == array.dtype for name, array in wanted.items())
        assert not any(found[name].dtype == np.float64 for name in inputs)


def test_a_file_names_the_axes_of_every_tensor(built: Path) -> None:
    for path in built.rglob("*-*.safetensors"):
        with safe_open(path, framework="numpy") as file:
            said = file.metadata()
            for name in file.keys():  # noqa: SIM118 -- not a mapping
                assert len(said[name].split()) == file.get_tensor(name).ndim, (path, name)
    with safe_open(built / "attention" / "attention-long.safetensors", framework="numpy") as file:
        said = file.metadata()
    assert said["step0/output/weights"] == "batch head query key"
    assert (said["case"], said["operation"], said["pack_version"]) == ("attention-long", "attention", "0.1.0")


def test_of_a_long_sequence_taps_are_kept_as_hashes(pack: Pack, built: Path) -> None:
    entry = manifest.load(built).files["attention/attention-long.safetensors"]
    assert "step0/tap/scores" in entry.omitted
    (long,) = (golden for golden in goldens(pack) if golden.long)
    scores = long.scenario.read(Float64())[0].taps["scores"].array
    assert entry.omitted["step0/tap/scores"] == digest(np.ascontiguousarray(scores).astype("<f8").tobytes())


def test_what_is_not_ours_stays_and_old_goldens_go(pack: Pack, golden: Path) -> None:
    (golden / "README.md").write_text("kept")
    (golden / "softmax" / "old.safetensors").write_bytes(b"gone")
    (golden / "notes").mkdir()
    (golden / "notes" / "a.txt").write_text("kept too")
    build(pack, golden, CASES[:1], [])
    assert set(files(golden)) == {
        "README.md",
        "notes/a.txt",
        "manifest.yaml",
        "softmax/softmax-scores-with-mask.safetensors",
    }


def test_a_build_that_fails_leaves_everything_as_it_was(
    pack: Pack, golden: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = files(golden.parent)
    monkeypatch.setattr(building, "BUDGET", 1000)
    with pytest.raises(GoldenError, match="publish fewer cases"):
        build(pack, golden, CASES[:1], [])
    monkeypatch.undo()
    monkeypatch.setattr(Path, "rename", _refuse)
    with pytest.raises(PermissionError):
        build(pack, golden, CASES[:1], [])
    assert files(golden.parent) == before


def _refuse(self: Path, target: Path) -> Path:
    raise PermissionError(13, "Permission denied", str(self))


def test_a_pattern_that_fits_nothing_is_refused(pack: Pack, tmp_path: Path) -> None:
    with pytest.raises(GoldenError, match=r"model-plain: no published case has this id"):
        build(pack, tmp_path / "golden", ["model-plain"], [])
    assert not (tmp_path / "golden").exists()


def test_files_are_what_the_library_reads_whatever_is_in_them(tmp_path: Path) -> None:
    tensors = {
        "a/b": np.array([[1.5, np.nan], [-np.inf, 5e-324]]),
        "scalar": np.array(True),
        "none": np.zeros((0, 3)),
        "bytes": np.arange(3, dtype=np.uint8),
        "turned": np.arange(6.0, dtype=np.float32).reshape(2, 3).T,
        "whole": np.array([-(2**63), 2**63 - 1]),
    }
    said = {"z": "ü", "a": "", "a/b": "row column"}
    path = tmp_path / "file.safetensors"
    path.write_bytes(encoded(tensors, said))
    found = load_file(path)
    assert set(found) == set(tensors)
    for name, array in tensors.items():
        np.testing.assert_array_equal(found[name], array)
        assert found[name].dtype == array.dtype
    with safe_open(path, framework="numpy") as file:
        assert file.metadata() == said
    with pytest.raises(TypeError, match="'x' is complex128"):
        encoded({"x": np.zeros(2, complex)}, {})


def test_no_temporary_folder_remains(built: Path) -> None:
    assert [path.name for path in built.parent.iterdir()] == [built.name]
