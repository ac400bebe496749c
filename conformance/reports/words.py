"""What reports say themselves, in both languages; everything else they say comes from the results file."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from conformance.language.program import Text
from conformance.told import told

if TYPE_CHECKING:
    from conformance.reports.model import Where

LANGUAGES = ("en", "zh")

_WORDS: Final[dict[str, tuple[str, str]]] = {
    # the ladder
    "operation": ("operation", "算子"),
    "layer": ("layer", "层"),
    "model": ("model", "模型"),
    "decode": ("decode", "解码"),
    "graph": ("graph", "计算图"),
    "ladder": ("Ladder", "评测阶梯"),
    "rung": ("rung", "阶梯"),
    "first broken": ("first broken", "最先出错"),
    "not graded": ("not graded", "未评测"),
    "first broken rung": ("first broken rung: {rung}, at {claim}", "最先出错的一级：{rung}，断言 {claim}"),
    # verdicts
    "pass": ("pass", "通过"),
    "fail": ("fail", "不符"),
    "error": ("error", "出错"),
    "timeout": ("timeout", "超时"),
    "unsupported": ("unsupported", "不支持"),
    "waived": ("waived", "豁免"),
    # between them
    ",": (", ", "，"),
    ":": (": ", "："),
    ";": ("; ", "；"),
    "(": (" (", "（"),
    ")": (")", "）"),
    # at the top
    "cause": ("cause", "原因"),
    "seen": ("seen", "现象"),
    "place": ("place", "位置"),
    "change": ("change", "应改为"),
    "should": ("should", "应当"),
    "explains": (
        "{mistakes}; explains {n} of {all} broken claims",
        "{mistakes}；可解释 {all} 条出错断言中的 {n} 条",
    ),
    "one error": (
        "{n} of {all} broken claims show this error",
        "{all} 条出错断言中有 {n} 条都是这个错误",
    ),
    "other causes": ("other causes: {mistakes}", "其他原因：{mistakes}"),
    "in variable": (" (variable {variable})", "（变量 {variable}）"),
    "last right": (
        "`{right}` (line {before}) was still right; `{variable}`, line {line}, should be `{expected}`",
        "`{right}`（第 {before} 行）仍然正确；第 {line} 行的 `{variable}` 应为 `{expected}`",
    ),
    "should be": ("`{variable}` should be `{expected}`", "`{variable}` 应为 `{expected}`"),
    "node": ("node {node} ({op})", "节点 {node}（{op}）"),
    "signature": ("the call must work as the document says: {says}", "调用应如文档所述：{says}"),
    # one claim
    "broken claims": ("What does not conform", "不符合的断言"),
    "says": ("says", "文档"),
    "document": ("the document says", "文档的说法"),
    "statements": ("statements", "陈述"),
    "statement": ("statement", "陈述"),
    "equation": ("equation", "公式"),
    "call": ("call", "调用"),
    "worst": ("worst", "最差处"),
    "worst element": ("worst element", "误差最大的元素"),
    "at": ("at", "处"),
    "got": ("got", "得到"),
    "expected": ("expected", "应为"),
    "tolerance": ("tolerance", "容差"),
    "margin": ("error in tolerances", "误差（容差倍数）"),
    "tolerances off": ("{n} tolerances off", "误差为容差的 {n} 倍"),
    "close call": ("close to the tolerance", "接近容差"),
    "only element": ("its only element", "唯一的元素"),
    "mistake": ("mistake", "已知错误"),
    "fits": ("fit {fit}", "吻合度 {fit}"),
    "where": ("where", "位置"),
    "reproduce": ("reproduce", "复现"),
    "reproduce without": ("reproduce without this tool", "不用本工具即可复现"),
    "on case": ("on {case}", "用例 {case}"),
    "case": ("case", "用例"),
    "cases": ("broken in {n} of {all} verdicts", "{all} 个判定中有 {n} 个未通过"),
    "consequence": ("follows from {cause}", "由 {cause} 引起"),
    "following": ("These follow from {cause}", "以下由 {cause} 引起"),
    "counted from 0": ("Indices count from 0.", "下标从 0 开始。"),
    "more": ("… and {n} more in {report}", "……另有 {n} 条，见 {report}"),
    "more lines": ("… and {n} more", "……另有 {n} 条"),
    # what was not graded
    "not graded title": ("Not graded, and why", "未评测及原因"),
    "claims": ("claims", "断言"),
    "n claims": ("{n} claims", "{n} 条断言"),
    "one claim": ("1 claim", "1 条断言"),
    "waived title": ("Waived", "已豁免"),
    "required": ("required, but not graded", "要求评测但未评测"),
    "printed title": ("Printed by the submission", "被测代码的输出"),
    "environment": ("Environment", "运行环境"),
    "isolation": ("isolation", "隔离"),
    "notes": ("Notes", "说明"),
    # the whole
    "conforms": ("conforms in all it offers", "在其提供的范围内全部符合"),
    "does not conform": ("does not conform", "不符合"),
    "interrupted": ("interrupted", "中断"),
    "interrupted so far": (
        "interrupted: {n} verdicts so far, {broken} of them broken; this is no result",
        "评测中断：目前有 {n} 个判定，其中 {broken} 个未通过；这不是最终结果",
    ),
    "interrupted note": (
        "the file has no end line, so the run was interrupted; it is shown as far as it goes",
        "文件没有结束行，说明评测被中断；以下仅显示已有部分",
    ),
    "trace note": ("while the line was looked for: {note}", "查找出错行时：{note}"),
    "target": ("target", "被测对象"),
    "pack": ("pack", "规范包"),
    "variants": ("variants", "变体"),
    "choice": ("choice", "选项"),
    "site variants": ("Variants", "变体"),
    "variant": ("variant", "变体"),
    "dtypes": ("dtypes", "精度"),
    "dtype": ("dtype", "精度"),
    "seed": ("seed", "随机种子"),
    "tool": ("tool", "工具"),
    "seconds": ("seconds", "秒数"),
    "none declared": ("none declared", "未声明"),
    "reason": ("reason", "理由"),
    "expires": ("expires", "到期"),
    "until": ("until {day}", "至 {day}"),
    "state": ("state", "状态"),
    "used": ("in use", "使用中"),
    "unused": ("unused", "未用到"),
    "expired": ("expired", "已过期"),
    "needless": ("no longer needed: it passes", "已不需要：断言已通过"),
    # the drawing of a layer, pictures of arrays
    "one layer": ("One layer, from input to output", "一层的数据流：从输入到输出"),
    "flow good": ("as it should be", "正确"),
    "flow bad": ("wrong", "有误"),
    "flow silent": ("not graded", "未评测"),
    "flow unseen": ("not seen", "未见"),
    "layers": ("Layer by layer", "逐层情况"),
    "layer n": ("layer {n}", "第 {n} 层"),
    "encoder": ("encoder", "编码器"),
    "decoder": ("decoder", "解码器"),
    "layer good": ("as it should be", "正确"),
    "layer bad": ("wrong", "有误"),
    "layer silent": ("its input is wrong already", "输入已经有误"),
    "layer unseen": ("not seen", "未见"),
    "along layers": (
        "Error along the layers, against the program, in tolerances",
        "误差沿各层的变化（与程序相比，以容差为单位）",
    ),
    "along layers local": (
        "Error of each layer's own stage, on the submission's own tensors before it, in tolerances",
        "各层自身这一步的误差（以被测代码自己的上游张量为输入，以容差为单位）",
    ),
    "along positions": (
        "Decode against prefill: error at each position, in tolerances",
        "解码与预填充对比：各位置的误差（以容差为单位）",
    ),
    "with cache": ("in {n} calls with a cache", "分 {n} 次调用并使用缓存"),
    "in one call": ("the same sequence in one call", "同一序列一次调用"),
    "tolerance line": ("The line is the tolerance.", "横线为容差。"),
    "calls parted": ("Dashed lines part the calls.", "虚线分隔各次调用。"),
    "as numbers": ("As numbers", "数值"),
    "tensor": ("tensor", "张量"),
    "position": ("position", "位置"),
    "call number": ("call", "第几次调用"),
    "picture": (
        "What came, what was expected, and the difference; the frame marks the worst element.",
        "得到的值、应有的值与两者之差；方框标出误差最大的元素。",
    ),
    "difference of both": ("difference", "差"),
    "profile": ("Largest difference along each axis", "沿各轴的最大差值"),
    "question": ("question", "问题"),
    # the pack as a site
    "claims site": ("Claims", "断言手册"),
    "pages": ("Pages", "页面"),
    "overview": ("Overview", "概览"),
    "questions": ("Questions", "问题"),
    "mistakes": ("Mistakes", "常见错误"),
    "tensors": ("Tensors", "张量"),
    "coverage": ("Coverage", "覆盖情况"),
    "literature": ("Literature", "文献"),
    "case list": ("Cases", "用例"),
    "right": ("right", "正确"),
    "mistaken": ("mistaken", "错误"),
    "shows in": ("Claims about it", "与之相关的断言"),
    "applies when": ("applies when", "适用条件"),
    "unsettled": ("Statements that no claim decides", "没有断言判定的陈述"),
    "site counts": (
        "{statements} statements, {claims} claims on {cases} cases, {mistakes} mistakes.",
        "{statements} 条陈述，{claims} 条断言，{cases} 个用例，{mistakes} 种错误。",
    ),
    # the page
    "place of element": ("at {place}", "位于 {place}"),
    "see above": ("the worst case, above", "最差情形见上文"),
    "page title": ("Conformance report", "符合性报告"),
    "all claims": ("All claims", "全部断言"),
    "filter": ("Filter", "筛选"),
    "verdict": ("verdict", "判定"),
    "claim": ("claim", "断言"),
    "level": ("level", "级别"),
    "summary": ("finding", "结论"),
    "all": ("all", "全部"),
    "search": ("search", "搜索"),
    "search hint": ("id, title or text", "编号、标题或文字"),
    "shown": ("shown", "条显示"),
    "nothing broken": ("Nothing is broken.", "没有出错的断言。"),
    "language": ("Language", "语言"),
    "theme": ("Colours", "配色"),
    "light": ("Light", "浅色"),
    "dark": ("Dark", "深色"),
    "system": ("System", "系统"),
    "run facts": ("This run", "本次评测"),
    "verdicts": ("verdicts", "判定"),
    "counts": ("counts", "数量"),
    # feedback without answers, points
    "withheld": ("it does not hold", "不成立"),
    "withheld tensor": ("`{tensor}` is not what it should be", "`{tensor}` 与应有的值不符"),
    "withheld place": (
        "`{tensor}` is not what it should be; worst at {place}",
        "`{tensor}` 与应有的值不符；偏差最大处在 {place}",
    ),
    "not gradable": ("The submission could not be graded: {why}", "该提交无法评测：{why}"),
    "no claim fits": (
        "{name}: no claim of this run counts for its {points} points",
        "{name}：本次评测没有断言可计入其 {points} 分",
    ),
    "n of m claims": ("{n} of {all} claims hold", "{all} 条断言中有 {n} 条成立"),
    # two runs
    "difference": (
        "{broke} broke, {mended} mended, {still} still broken, {same} as before",
        "新出错 {broke}，已修复 {mended}，仍出错 {still}，不变 {same}",
    ),
    "before": ("before", "之前"),
    "after": ("after", "之后"),
    "differs": ("{name} differs: {a} before, {b} after", "{name}不同：之前为 {a}，之后为 {b}"),
    "broke": ("Broke", "新出错"),
    "mended": ("Mended", "已修复"),
    "still broken": ("Still broken", "仍出错"),
    "otherwise": ("Changed otherwise", "其他变化"),
    "absent": ("absent", "无"),
    # many runs
    "grades": ("Grades", "评分汇总"),
    "n submissions": ("{n} submissions", "{n} 份提交"),
    "one submission": ("1 submission", "1 份提交"),
    "nothing graded": ("nothing graded", "未能评测"),
    "about left": ("about {time} left", "大约还需 {time}"),
    "n of m statements": ("{n} of {all}", "{all} 条中 {n} 条"),
    "not all graded": ("not all graded", "未全部评测"),
    "passes": ("conforms", "符合"),
    "n broken": ("{n} broken", "{n} 条出错"),
    "not all": ("{n} of {all} were graded", "{all} 份中评测了 {n} 份"),
    "outcome": ("outcome", "结果"),
    "submission": ("submission", "提交"),
    "one submission each": ("{n} more, of one submission each", "另有 {n} 项，各只见于一份提交"),
    "offers nothing": ("it offers nothing that can be graded: {reasons}", "没有可评测的内容：{reasons}"),
    "nothing selected": ("nothing that is selected applies to it", "没有适用的所选断言"),
    "shared": ("What they share", "共同的错误"),
    "no known mistake": (
        "no known mistake; the first broken claim is {claim}",
        "没有已知错误与之相符；最先出错的断言是 {claim}",
    ),
    "by rung": ("By rung", "按阶梯"),
    "by claim": ("By claim", "按断言"),
    "hardest": ("Broken most often", "最常出错的断言"),
    "n of m": ("{n} of {all}", "{all} 份中的 {n} 份"),
    "passed of graded": ("passed of graded", "通过数 / 评测数"),
    "several packs": (
        "Results of several packs: {packs}. A claim with the same id is taken for the same.",
        "结果来自不同的规范包：{packs}。编号相同的断言视为同一条。",
    ),
    "cell hint": (
        "Each cell is one claim of one submission; it leads to its place in the report.",
        "每一格是一份提交的一条断言，点击可跳到其报告中的相应位置。",
    ),
    "other language": (
        "this terminal cannot show Chinese ({encoding}); in English",
        "此终端无法显示中文（{encoding}）；改用英文",
    ),
}


def word(key: str, **fields: object) -> Text:
    """A phrase in both languages, with its fields filled in. A key that is none is said as it is."""
    if not fields:
        return _phrase(key)
    en, zh = _WORDS.get(key, (key, key))
    return Text(
        en.format(**{name: _in(value, "en") for name, value in fields.items()}),
        zh.format(**{name: _in(value, "zh") for name, value in fields.items()}),
    )


@lru_cache(maxsize=1024)
def _phrase(key: str) -> Text:
    return Text(*_WORDS.get(key, (key, key)))


def say(key: str, lang: str, **fields: object) -> str:
    """A phrase in one language."""
    return pick(word(key, **fields), lang)


def pick(text: Text, lang: str) -> str:
    """A text in one language."""
    return text.zh if lang == "zh" else text.en


def fact(name: str, value: str) -> Text:
    """A fact of a run as it is shown; of all of them, only how the target was kept apart is a sentence."""
    return told(value) if name == "isolation" else Text(value, value)


def between(where: Where) -> Text | None:
    """The last tensor that was right, and what the first wrong one should have been; None where neither is known."""
    if not where.expected or not where.variable:
        return None
    wrong = {"variable": where.variable, "line": where.line, "expected": where.expected}
    right = where.last_right
    if right is None or not right.variable:
        return word("should be", **wrong)
    return word("last right", right=right.variable, before=right.line, **wrong)


def _in(value: object, lang: str) -> str:
    return pick(value, lang) if isinstance(value, Text) else str(value)
