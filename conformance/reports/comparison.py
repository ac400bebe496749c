"""What a comparison of two targets says: lines for `compare.jsonl`, and the table on a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text as Styled

from conformance import __version__
from conformance.comparing import AGREE, BOTH_RAISE, NOT_COMPARED, PART, Compared, Ending, Met, Plan, Side
from conformance.judging.compare import number
from conformance.pack.model import Pack
from conformance.results.records import SCHEMA, jsonable

FILE = "compare.jsonl"

_WORDS = {
    "agree": ("agree", "一致"),
    "part": ("part", "不一致"),
    "both raise": ("both raise", "双方都抛出异常"),
    "not compared": ("not compared", "未比较"),
    "head": (" tolerances  case, and its tensors", "   容差倍数  用例与其张量"),
    "tensors": ("{case} ({n})", "{case}（{n}）"),
    "call": ("(call {n})", "（调用 {n}）"),
    "undeclared": ("no variant declared", "未声明变体"),
    "they agree": ("A and B agree: {cases} cases, {tensors} tensors, worst difference {worst} of the tolerance",
                   "A 与 B 一致：{cases} 个用例、{tensors} 个张量，最大差异为容差的 {worst} 倍"),
    "they part": ("A and B part: {part} of {cases} cases", "A 与 B 不一致：{cases} 个用例中有 {part} 个"),
    "nothing": ("nothing that both offer could be compared", "没有双方都提供、可以比较的内容"),
    "first": ("first   `{tensor}` in {case}", "最先不一致   `{tensor}`，用例 {case}"),
    "first case": ("first   {case}", "最先不一致   用例 {case}"),
    "values": ("        {place}: A {a}, B {b}; {margin} tolerances apart",
               "        {place}：A 为 {a}，B 为 {b}；相差 {margin} 倍容差"),
    "program": ("        the program: {expected}; {sides}", "        程序给出：{expected}；{sides}"),
    "with": ("{letter} is with it", "{letter} 与之相符"),
    "off": ("{letter} is {off} tolerances off", "{letter} 偏离 {off} 倍容差"),
    "place": ("        {file}:{line}   {text}", "        {file}:{line}   {text}"),
}  # fmt: skip


def _say(key: str, lang: str, **fields: object) -> str:
    en, zh = _WORDS[key]
    return (zh if lang == "zh" else en).format(**fields)


def head_line(pack: Pack, sides: Sequence[Side], plan: Plan, seed: int) -> dict[str, Any]:
    """The first line: what is compared."""
    targets = {
        side.letter.lower(): {"target": side.name, "framework": offer.framework, **dict(offer.versions)}
        for side, offer in zip(sides, plan.offers, strict=True)
    }
    return {
        "kind": "compare",
        "schema": SCHEMA,
        "pack": pack.id,
        "pack_version": pack.version,
        **targets,
        "variants": [] if plan.graded.undeclared else [v.name for v in plan.graded.variants],
        "dtypes": [list(pair) for pair in plan.dtypes],
        "notes": [plan.note.en] if plan.note else [],
        "seed": seed,
        "tool_version": __version__,
    }


def case_lines(met: Met, undeclared: bool) -> Iterator[dict[str, Any]]:
    """One line for each tensor, then one for the case."""
    common = {
        "case": met.item.case.id,
        "rung": met.item.claim.rung,
        "variant": None if undeclared else met.item.variant.name,
        "dtypes": list(met.dtypes),
    }
    for tensor in met.tensors:
        yield {
            "kind": "tensor",
            **common,
            "tensor": tensor.tensor,
            "call": tensor.step,
            "verdict": "agree" if tensor.agrees else PART,
            "margin": jsonable(tensor.margin),
            "index": dict(tensor.index),
            "a": jsonable(tensor.values[0]),
            "b": jsonable(tensor.values[1]),
            "program": jsonable(tensor.expected),
            "tolerance": jsonable(tensor.tolerance),
            "off": jsonable(list(tensor.off)),
        }
    line: dict[str, Any] = {"kind": "case", **common, "verdict": met.verdict}
    if met.first is not None:
        line["first"] = met.first.tensor
    if met.says is not None:
        line["says"] = {"en": met.says.en, "zh": met.says.zh}
    if met.place is not None:
        line["where"] = {"file": met.place.file, "line": met.place.line, "text": met.place.text}
    yield line


def end_line(end: Ending) -> dict[str, Any]:
    """The last line: whether they agree, and where they first part."""
    line: dict[str, Any] = {
        "kind": "end",
        "agree": end.agree and end.anything,
        "counts": dict(end.counts),
        "tensors": end.tensors,
        "worst": jsonable(end.worst),
        "seconds": round(end.seconds, 3),
    }
    if end.first is not None:
        tensor = end.first.first
        line["first"] = {"case": end.first.item.case.id, "tensor": tensor.tensor if tensor else None}
    return line


def paint(
    console: Console, lang: str, sides: Sequence[Side], plan: Plan, cases: Sequence[Met], end: Ending,
    quiet: bool = False, everything: bool = False,
) -> None:  # fmt: skip
    """Draws the table and, last, where a terminal stands still, the verdict.

    `quiet` draws the verdict alone, `everything` also each tensor of a case that agrees.
    """
    if not quiet:
        for side in sides:
            console.print(f"{side.letter}  {side.name}")
        groups: dict[tuple[str, tuple[str, str]], list[Met]] = {}
        for met in cases:
            name = _say("undeclared", lang) if plan.graded.undeclared else met.item.variant.name
            groups.setdefault((name, met.dtypes), []).append(met)
        for (variant, dtypes), group in groups.items():
            console.print()
            precision = dtypes[0] if dtypes[0] == dtypes[1] else f"A {dtypes[0]}, B {dtypes[1]}"
            console.print(Styled(f"{variant}, {precision}", "bold"))
            for row in _rows(group, everything, lang):
                console.print(row, soft_wrap=True)
        console.print()
        if plan.note is not None:
            console.print(plan.note.zh if lang == "zh" else plan.note.en)
            console.print()
        _left_out(console, cases, lang)
    for text in _verdict(end, lang):
        console.print(text, soft_wrap=True)


def _rows(group: Sequence[Met], everything: bool, lang: str) -> Iterator[Styled]:
    """A row for each case that agrees, a row for each tensor of the others, or of all."""
    yield Styled(_say("head", lang), "dim")
    for met in group:
        case = met.item.case.id
        if met.verdict == NOT_COMPARED:
            continue
        if met.verdict == AGREE and not everything:
            worst = max(tensor.margin for tensor in met.tensors)
            yield Styled(f"{_margin(worst):>11}  {_say('tensors', lang, case=case, n=len(met.tensors))}")
            continue
        says = ""
        if met.says is not None:
            says = f"   {_say(met.verdict, lang)}   {met.says.zh if lang == 'zh' else met.says.en}"
        yield Styled(f"{'':>11}  {case}{says}")
        several = any(tensor.step for tensor in met.tensors)
        for tensor in met.tensors:
            call = f" {_say('call', lang, n=tensor.step)}" if several else ""
            if tensor.agrees:
                yield Styled(f"{_margin(tensor.margin):>11}    {tensor.tensor}{call}")
            else:
                values = "A {}, B {}".format(*map(number, tensor.values))
                row = f"{_margin(tensor.margin):>11}    {tensor.tensor}{call}   {_indices(tensor)}: {values}"
                yield Styled(row, "red")


def _left_out(console: Console, cases: Sequence[Met], lang: str) -> None:
    """Why cases were not compared, each reason once."""
    reasons: dict[str, int] = {}
    for met in cases:
        if met.verdict == NOT_COMPARED and met.says is not None:
            says = met.says.zh if lang == "zh" else met.says.en
            reasons[says] = reasons.get(says, 0) + 1
    if reasons:
        console.print(Styled(_say("not compared", lang), "bold"))
        for says, n in sorted(reasons.items(), key=lambda entry: -entry[1]):
            console.print(f"  {n}  {says}", soft_wrap=True)
        console.print()


def _verdict(end: Ending, lang: str) -> Iterator[Styled]:
    """Whether they agree; else where they part first, and which of them the program is with."""
    compared = sum(n for verdict, n in end.counts.items() if verdict != NOT_COMPARED)
    if not end.anything:
        yield Styled(_say("nothing", lang))
        return
    if end.agree:
        worst = _margin(end.worst)
        yield Styled(_say("they agree", lang, cases=compared, tensors=end.tensors, worst=worst), "green")
        if end.counts.get(BOTH_RAISE):
            yield Styled(f"  {end.counts[BOTH_RAISE]}  {_say(BOTH_RAISE, lang)}")
        return
    yield Styled(_say("they part", lang, part=end.counts[PART], cases=compared), "red")
    met = end.first
    assert met is not None
    tensor = met.first
    if tensor is None:
        yield Styled(_say("first case", lang, case=met.item.case.id))
    else:
        yield Styled(_say("first", lang, tensor=tensor.tensor, case=met.item.case.id))
        a, b = map(number, tensor.values)
        yield Styled(_say("values", lang, place=_indices(tensor), a=a, b=b, margin=_margin(tensor.margin)))
        comma = "，" if lang == "zh" else ", "
        sides = comma.join(_against(letter, off, lang) for letter, off in zip("AB", tensor.off, strict=True))
        yield Styled(_say("program", lang, expected=number(tensor.expected), sides=sides))
    if met.says is not None:
        yield Styled(f"        {met.says.zh if lang == 'zh' else met.says.en}")
    if met.place is not None:
        place = met.place
        yield Styled(_say("place", lang, file=place.file, line=place.line, text=place.text))


def _against(letter: str, off: float | None, lang: str) -> str:
    """How one side stands to the program."""
    if off is None or off <= 1:
        return _say("with", lang, letter=letter)
    return _say("off", lang, letter=letter, off=_margin(off))


def _margin(margin: float) -> str:
    if margin < 1000:
        return f"{margin:.2g}" if margin < 100 else f"{margin:.0f}"
    return "∞" if margin == float("inf") else f"{float(f'{margin:.3g}'):,.0f}"


def _indices(tensor: Compared) -> str:
    return ", ".join(f"{axis} {i}" for axis, i in tensor.index.items())
