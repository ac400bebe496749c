import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from golden_helpers import files, flip
from safetensors import safe_open

from conformance.cli import main
from conformance.golden.export import archive, export, text
from conformance.golden.files import GoldenError, decoded
from conformance.pack.model import Pack

SPECIAL = {"inf": np.inf, "Infinity": np.inf, "-Infinity": -np.inf, "NaN": np.nan}


def number(value: object) -> object:
    return SPECIAL[value] if isinstance(value, str) else value


def test_npz_holds_the_same(pack: Pack, built: Path, tmp_path: Path) -> None:
    written = export(pack, built, tmp_path, "npz")
    assert len(written) == 7
    for path in written:
        tensors, said = decoded((built / path.relative_to(tmp_path)).with_suffix(".safetensors"), path.name)
        with np.load(path, allow_pickle=False) as found:
            about = json.loads(found["metadata.json"])
            assert set(found.files) == {*tensors, "metadata.json"}
            for name, array in tensors.items():
                np.testing.assert_array_equal(found[name], array)
                assert found[name].dtype == array.dtype
                assert about["axes"][name] == said[name].split()
        assert about["case"] == said["case"]


def test_json_reads_back_to_the_last_bit(pack: Pack, built: Path, tmp_path: Path) -> None:
    for path in export(pack, built, tmp_path, "json"):
        source = (built / path.relative_to(tmp_path)).with_suffix(".safetensors")
        tensors, said = decoded(source, path.name)
        found = json.loads(path.read_text(encoding="utf-8"), parse_constant=_no_constants)
        assert found["variants"] == said["variants"]
        assert set(found["tensors"]) == set(tensors)
        for name, array in tensors.items():
            entry = found["tensors"][name]
            back = np.array([number(x) for x in entry["data"]], entry["dtype"]).reshape(entry["shape"])
            np.testing.assert_array_equal(back, array, err_msg=name)
            assert entry["axes"] == said[name].split()


def _no_constants(text: str) -> object:
    raise AssertionError(f"{text} is no JSON")


def test_every_number_and_what_is_none() -> None:
    values = np.array([0.1, 5e-324, -0.0, 1.7976931348623157e308, np.pi, np.nan, np.inf, -np.inf])
    tensors = {
        "x": values,
        "small": np.array([0.1], np.float32),
        "flag": np.array(True),
        "n": np.array([2**62]),
    }
    found = json.loads(text(tensors, {"x": "model", "small": "model", "flag": "", "n": "model"}))["tensors"]
    assert found["x"]["data"][-3:] == ["NaN", "Infinity", "-Infinity"]
    assert np.array(found["x"]["data"][:5]).tobytes() == values[:5].tobytes()
    assert found["flag"] == {"dtype": "bool", "shape": [], "axes": [], "data": [True]}
    assert found["n"]["data"] == [2**62]
    assert np.float32(found["small"]["data"][0]) == np.float32(0.1)
    assert archive(tensors, {}) == archive(tensors, {})


def test_some_cases_only(pack: Pack, built: Path, tmp_path: Path) -> None:
    ask = [
        "golden",
        "export",
        "--to",
        "npz",
        "-o",
        str(tmp_path / "out"),
        "--from",
        str(built),
        "--pack",
        str(pack.folder),
    ]
    result = CliRunner().invoke(main, [*ask, "--case", "rope-*", "--case", "softmax-*"])
    assert result.exit_code == 0, result.output
    assert set(files(tmp_path / "out")) == {
        "rope/rope-plain-half.npz",
        "rope/rope-plain-interleaved.npz",
        "softmax/softmax-scores-with-mask.npz",
    }
    result = CliRunner().invoke(main, [*ask, "--case", "rpoe-*"])
    assert result.exit_code == 2
    assert (
        "rpoe-*: no golden is of this case; there are attention-long, mha-worked-example, rope-plain"
        in result.output
    )


def test_a_damaged_golden_is_not_handed_out(pack: Pack, golden: Path, tmp_path: Path) -> None:
    flip(golden / "rope" / "rope-plain-half.safetensors", -1)
    with pytest.raises(GoldenError, match=r"rope/rope-plain-half.safetensors: has changed; sha256 expected"):
        export(pack, golden, tmp_path / "out", "json")
    assert not (tmp_path / "out").exists()


def test_another_language_needs_only_the_header(built: Path) -> None:
    """The snippet of docs/golden.md, which reads a file without any library."""
    path = built / "rope" / "rope-plain-half.safetensors"
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    entry = header["step0/output/output"]
    start, end = entry["data_offsets"]
    array = np.frombuffer(data[8 + length + start : 8 + length + end], "<f8").reshape(entry["shape"])
    with safe_open(path, framework="numpy") as file:
        np.testing.assert_array_equal(array, file.get_tensor("step0/output/output"))
    assert header["__metadata__"]["step0/output/output"] == "batch head query dh"
    assert (8 + length) % 8 == 0
