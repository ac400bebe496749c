"""The frames on the socket, without a process."""

import random
from collections.abc import Callable

import numpy as np
import pytest

from conformance.session.answers import Malformed, announced_outputs, wanted
from conformance.worker import protocol
from conformance.worker.protocol import Garbled, Reader, cut, encode_frame, flatten, lay_out, unflatten

NONCE = bytes(range(16))


def source(data: bytes, most: int) -> Callable[[memoryview], int]:
    left = memoryview(data)

    def receive(view: memoryview) -> int:
        nonlocal left
        count = min(len(view), len(left), most)
        view[:count] = left[:count]
        left = left[count:]
        return count

    return receive


@pytest.mark.parametrize("most", [1, 7, 65_536, 1 << 30])
@pytest.mark.parametrize("size", [0, 5, 100_000])
@pytest.mark.parametrize("text", ["", "é" * 40_000])
def test_a_frame_arrives_as_it_was_sent_however_it_is_cut(most, size, text):
    payload = np.arange(size, dtype=np.uint8)
    data = encode_frame(5, NONCE, {"text": text, "nan": float("nan")}, [payload])
    frame = Reader(source(data, most)).frame(size)
    assert (frame.kind, frame.nonce, frame.meta["text"]) == (5, NONCE, text)
    assert frame.meta["nan"] != frame.meta["nan"]
    np.testing.assert_array_equal(frame.payload, payload)


def test_a_longer_payload_than_asked_for_is_refused_before_it_is_read():
    data = encode_frame(5, NONCE, None, [bytes(100)])
    assert Reader(source(data, 1 << 20)).frame(100).payload.size == 100
    with pytest.raises(Garbled, match="longer"):
        Reader(source(data[: protocol.HEADER.size], 1 << 20)).frame(99)


def test_a_frame_that_is_cut_short_is_an_end():
    data = encode_frame(5, NONCE, {"a": 1}, [bytes(100)])
    for size in (0, 10, 40, len(data) - 1):
        with pytest.raises(EOFError):
            Reader(source(data[:size], 1 << 20)).frame(100)


def test_random_bytes_are_never_a_frame():
    good = encode_frame(6, NONCE, {"is": "returned"}, [bytes(64)])
    generator = random.Random(7)
    refused = 0
    for _ in range(3000):
        data = bytearray(good)
        for _ in range(generator.randint(1, 4)):
            data[generator.randrange(len(data))] = generator.randrange(256)
        try:
            frame = Reader(source(bytes(data), 1 << 20)).frame(64)
        except (Garbled, EOFError):
            refused += 1
        else:
            assert frame.payload.size <= 64
    assert refused > 1000


@pytest.mark.parametrize("text", [b"{", b"\xff\xff", b"[" * 200_000, b"1" * 5000, b'"\\ud800', b"nul"])
def test_text_that_is_no_json_is_garbled(text):
    data = protocol.HEADER.pack(protocol.MAGIC, protocol.VERSION, 6, NONCE, len(text), 0) + text
    with pytest.raises(Garbled):
        Reader(source(data, 1 << 20)).frame(0)


def test_a_text_over_a_mebibyte_is_refused_on_both_sides():
    with pytest.raises(ValueError, match="bytes; 1048576 are allowed"):
        encode_frame(5, NONCE, "x" * (1 << 20))
    data = protocol.HEADER.pack(protocol.MAGIC, protocol.VERSION, 6, NONCE, (1 << 20) + 1, 0)
    with pytest.raises(Garbled, match="longer"):
        Reader(source(data, 1 << 20)).frame(0)


def test_arrays_of_all_kinds_are_laid_out_and_cut_again():
    arrays = [
        np.arange(5, dtype="<f4"),
        np.zeros((0, 3), "<f8"),
        np.array(True),
        np.arange(6, dtype="<i8").reshape(2, 3).T,
        np.array(2.5, "<f2"),
        np.ones((1, 1, 1), "<f4")[::-1],
    ]
    table, parts = lay_out(arrays)
    payload = np.frombuffer(b"".join(bytes(part) for part in parts), np.uint8)
    for array, back in zip(arrays, cut(table, payload), strict=True):
        assert back.dtype == array.dtype
        np.testing.assert_array_equal(back, array, strict=True)
    with pytest.raises(Garbled, match="fewer"):
        cut(table, payload[:-16])
    with pytest.raises(Garbled, match="more"):
        cut(table[:-1], payload)


def test_values_are_flattened_and_made_again():
    arrays = []
    value = {"a": np.ones(2), "b": [1, 2.5, None, True, "x", {"m": np.arange(3), "a": 1}], "l": np.float32(2)}
    tree = flatten(value, arrays, "<f4")
    assert [array.dtype.str for array in arrays] == ["<f4", "<i8"]
    paths = []
    back = unflatten(tree, lambda index, path: paths.append(path) or arrays[index].tolist())
    assert back == {"a": [1, 1], "b": [1, 2.5, None, True, "x", {"m": [0, 1, 2], "a": 1}], "l": 2}
    assert paths == ["a", "b[5].m"]


@pytest.mark.parametrize("value", [object(), np.array(["x"]), np.array([1j]), {1, 2}, b"x".__iter__()])
def test_what_cannot_be_sent_is_a_type_error(value):
    with pytest.raises(TypeError, match="cannot be sent"):
        flatten({"x": value}, [], "<f4")


def announce(*tensors, taps=()):
    output = {
        "tensors": [list(t) for t in tensors],
        "taps": [list(t) for t in taps],
        "modified": [],
        "notes": [],
    }
    return {"outputs": [output]}


def chosen(meta, expect, limit=1 << 20):
    return [
        item.name
        for output in announced_outputs(meta, [expect], limit)
        for item in (*output.tensors, *output.taps)
        if item.wanted
    ]


def test_what_the_parent_reads():
    large = (200, 200)  # 160 kB
    tensor = ["output", "float32", "<f4", list(large)]
    assert chosen(announce(tensor), {"output": large}) == ["output"]
    assert chosen(announce(tensor), {}) == ["output"]  # no shape is known
    assert chosen(announce(tensor), {"output": (2, 2)}) == []  # too large to be shown
    assert chosen(announce(["output", "float32", "<f4", [100, 100]]), {"output": (2, 2)}) == ["output"]
    assert chosen(announce(["output", "float32", "<f4", [1, 200, 200]]), {"output": (2, 200, 200)}) == [
        "output"
    ]
    assert chosen(announce(tensor), {"output": large}, limit=159_999) == []
    assert chosen(announce(tensor, ["weights", "float32", "<f4", list(large)]), {}, limit=200_000) == [
        "output"
    ]
    taps = [[f"t{i}", "float32", "<f4", list(large)] for i in range(3)]
    assert chosen(announce(tensor, taps=taps), {}, limit=330_000) == ["output", "t0", "t1"]


def test_the_bytes_that_are_asked_for_are_those_of_the_table():
    tensors = [["a", "float32", "<f4", [5]], ["b", "float16", "<f2", []], ["c", "float64", "<f8", [0, 9]]]
    outputs = announced_outputs(announce(*tensors, taps=[["t", "bool", "|b1", [3]]]), [{}], 1000)
    positions, table, size = wanted(outputs)
    assert positions == [0, 1, 2, 3]
    assert size == 32 + 16 + 0 + 16
    assert [array.shape for array in cut(table, np.zeros(size, np.uint8))] == [(5,), (), (0, 9), (3,)]


def test_another_number_of_outputs_is_malformed():
    with pytest.raises(Malformed):
        announced_outputs(announce(["a", "float32", "<f4", [5]]), [{}, {}], 1000)
