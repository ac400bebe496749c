import time
from pathlib import Path

import numpy as np
import pytest
from golden_helpers import flip
from hypothesis import given
from hypothesis import strategies as st

from conformance.golden import tolerances
from conformance.golden.coding import decode, encode
from conformance.golden.depends import dependence
from conformance.golden.files import GoldenError, decoded
from conformance.golden.tolerances import NAME, Tolerances, file_of, known_tolerances, load
from conformance.language.arithmetic import Array
from conformance.pack.model import Pack


@given(st.lists(st.floats(min_value=0, allow_nan=False), max_size=20))
def test_a_stored_sigma_is_never_less_and_hardly_more(values: list[float]) -> None:
    sigma = np.array(values)
    base, codes = encode(sigma)
    back = decode(base, codes, sigma.shape)
    np.testing.assert_array_equal(back == 0, sigma == 0)
    assert (back >= sigma).all()
    finite = sigma[np.isfinite(sigma)]
    floor = finite.max(initial=0.0) * 2.0**-254  # beside the largest, what is smaller says nothing
    with np.errstate(over="ignore"):
        assert (back[np.isfinite(sigma)] <= np.maximum(finite * 1.0028, floor)).all()
    assert np.isinf(back[np.isinf(sigma)]).all()


@pytest.mark.parametrize("value", [np.nan, -1.0])
def test_what_is_no_sigma_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="NaN or negative"):
        encode(np.array([1.0, value]))


def sigmas(count: int = 300) -> dict[str, Array]:
    random = np.random.default_rng(0)
    made: dict[str, Array] = {}
    for i in range(count):
        shape = [(), (3,), (2, 5), (0, 4), (2, 3, 4, 6)][i % 5]
        name = ("logits", "e35f0dac2b10/layers.0.q", "layers.1./5f0e35dac2b10c0d")[i % 3]
        made[f"{i // 6:024x}/float{'32' if i % 2 else '64'}/{i % 2}/{name}"] = 2.0 ** random.normal(
            -30, 20, shape
        )
    return made


def test_every_key_is_found_and_no_other(pack: Pack, tmp_path: Path) -> None:
    made = sigmas()
    (tmp_path / NAME).write_bytes(file_of(made, "d" * 64, pack))
    table = load(tmp_path / NAME, "d" * 64)
    store = Tolerances(table)
    assert set(store) == set(made)
    assert len(store) == len(table) == len(made)
    for key, sigma in made.items():
        assert store[key].shape == sigma.shape
        assert (store[key] >= sigma).all()
    for key in ("", "x", "0" * 24, "0" * 24 + "/", "f" * 24 + "/float32/0/logits", next(iter(made)) + "x", 7):
        assert key not in store
    with pytest.raises(KeyError):
        store["f" * 24 + "/float32/0/logits"]


def test_what_is_added_is_kept_in_memory(pack: Pack) -> None:
    store = Tolerances()
    assert not store
    store["anything"] = np.ones(2)
    assert list(store) == ["anything"]
    assert store["anything"] is store["anything"]
    del store["anything"]
    assert "anything" not in store


@pytest.mark.parametrize(
    "key", ["", "short/float32", "g" * 24 + "/float32/0/y", "0" * 24 + "/a\nb", "0" * 25]
)
def test_a_key_of_another_form_is_refused(pack: Pack, key: str) -> None:
    with pytest.raises(ValueError, match="is no key of a tolerance"):
        file_of({key: np.ones(1)}, "", pack)


def test_loading_thousands_takes_no_time(pack: Pack, tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(file_of(sigmas(6000), "d" * 64, pack))
    load(tmp_path / NAME)  # imports
    fastest = min(_seconds(tmp_path / NAME) for _ in range(5))
    print(f"6000 tolerances loaded in {1000 * fastest:.1f} ms")
    assert fastest < 0.05


def _seconds(path: Path) -> float:
    begun = time.process_time()
    load(path)
    return time.process_time() - begun


def test_what_was_measured_is_found(pack: Pack, built: Path) -> None:
    table = load(built / NAME, dependence(pack))
    assert any("/float32/0/output" in key for key in table.names())
    assert all((table.get(key) is not None) for key in table.names())


def bundled_as(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setattr(tolerances, "bundled", lambda _: folder)


def test_they_are_used_while_they_are_of_this_pack_and_engine(
    pack: Pack, golden: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundled_as(monkeypatch, golden)
    assert len(known_tolerances(pack)) > 20


def test_a_stale_file_is_ignored(pack: Pack, golden: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundled_as(monkeypatch, golden)
    monkeypatch.setattr(tolerances, "dependence", lambda _: "0" * 64)
    assert len(known_tolerances(pack)) == 0
    with pytest.raises(GoldenError, match="is stale: made for"):
        load(golden / NAME, "0" * 64)


@pytest.mark.parametrize("content", [None, b"", b"\0" * 100, b"not a file of tensors at all"])
def test_a_missing_or_meaningless_file_is_fine(
    pack: Pack, golden: Path, monkeypatch: pytest.MonkeyPatch, content: bytes | None
) -> None:
    bundled_as(monkeypatch, golden)
    (golden / NAME).unlink()
    if content is not None:
        (golden / NAME).write_bytes(content)
    assert len(known_tolerances(pack)) == 0
    bundled_as(monkeypatch, golden / "nowhere")
    assert len(known_tolerances(pack)) == 0


def test_a_truncated_file_is_fine(pack: Pack, golden: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundled_as(monkeypatch, golden)
    whole = (golden / NAME).read_bytes()
    for length in range(0, len(whole), len(whole) // 20):
        (golden / NAME).write_bytes(whole[:length])
        assert len(known_tolerances(pack)) == 0


def test_no_flipped_bit_gives_another_sigma(
    pack: Pack, golden: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever it is: the entry is missing, or all of them, or the σ are what they were."""
    bundled_as(monkeypatch, golden)
    true = dict(known_tolerances(pack))
    size = 8 * (golden / NAME).stat().st_size
    missing = 0
    for bit in range(3, size, size // 120):
        flip(golden / NAME, bit)
        store = known_tolerances(pack)
        for key, sigma in true.items():
            if key in store:
                np.testing.assert_array_equal(store[key], sigma)
            else:
                missing += 1
        flip(golden / NAME, bit)
    assert missing > 20


def test_the_hash_follows_the_program_and_not_the_cases(pack: Pack, tmp_path: Path) -> None:
    import shutil
    from dataclasses import replace

    shutil.copytree(pack.folder, tmp_path / "pack")
    copy = replace(pack, folder=tmp_path / "pack")
    before = dependence(pack)
    assert dependence(copy) == before
    with (tmp_path / "pack" / "cases" / "rope.yaml").open("a") as file:
        file.write("# a remark\n")
    assert dependence(copy) == before
    with (tmp_path / "pack" / "program" / "position.yaml").open("a") as file:
        file.write("# a remark\n")
    assert dependence(copy) != before


def test_tables_have_a_checksum_of_their_own(built: Path) -> None:
    tensors, said = decoded(built / NAME, NAME)
    assert set(said) == {"version", "pack", "pack_version", "depends", "crc"}
    assert tensors["offset"][-1] == tensors["packed"].size
