"""Sentences of verdicts, in both languages, so that no kind of claim words them its own way."""

from __future__ import annotations

from conformance.judging.compare import at, number
from conformance.language.program import Text
from conformance.results.records import Evidence


def agrees(margin: float | None) -> Text:
    """Within tolerance."""
    if margin is None:
        return Text("holds", "成立")
    return Text(
        f"holds (worst error {margin:.2g} of the tolerance)", f"成立（最大误差为容差的 {margin:.2g} 倍）"
    )


def differs(evidence: Evidence, margin: float) -> Text:
    """Got one number, expected another, at a named place."""
    place = at(evidence.index)
    off = f"{margin:.3g}" if margin < 1000 else f"{float(f'{margin:.3g}'):,.0f}"
    times = "" if margin == float("inf") else f", {off} tolerances off"
    zh_times = "" if margin == float("inf") else f"，偏差为容差的 {off} 倍"
    got, expected = number(evidence.got), number(evidence.expected)
    return Text(
        f"`{evidence.tensor}` at {place.en} is {got}, expected {expected}{times}",
        f"`{evidence.tensor}` 在 {place.zh} 处为 {got}，应为 {expected}{zh_times}",
    )


def shape(tensor: str, axes: tuple[str, ...], expected: tuple[int, ...], got: tuple[int, ...]) -> Text:
    """A tensor of another shape than expected."""
    named = ", ".join(f"{axis} {size}" for axis, size in zip(axes, expected, strict=True))
    return Text(
        f"`{tensor}` has shape {list(got)}, expected {list(expected)} ({named})",
        f"`{tensor}` 的形状为 {list(got)}，应为 {list(expected)}（{named}）",
    )


def unseen(tensor: str) -> Text:
    """The target does not make a tensor visible."""
    return Text(
        f"`{tensor}` is not visible: the target does not pass it to `tap`, nor return it",
        f"看不到 `{tensor}`：实现没有把它传给 `tap`，也没有返回它",
    )


def nothing_to_compare() -> Text:
    """Every element overflows in this dtype, or none is in question."""
    return Text(
        "nothing can be compared here: in this dtype the exact formula itself overflows",
        "此处无可比较：在该精度下公式本身就会溢出",
    )
