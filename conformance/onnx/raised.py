"""What onnxruntime says when it stops, in terms of the graph: the node, and why."""

from __future__ import annotations

import re
from dataclasses import replace

from conformance.language.program import Text
from conformance.results.records import Judgement, Place

AT_NODE = re.compile(
    r"while running (?P<op_type>\S+) node\. Name:'(?P<node>[^']*)' Status Message: (?P<why>.*)", re.DOTALL
)
OURS = re.compile(r"\s*\(\S*onnx_(model|operation)\.py, line \d+\)\s*$")
"""The adapter's own line, which says nothing to who wrote the graph."""
SOURCE = re.compile(r"\S*/onnxruntime/\S+:\d+ .*?(?=\b(was false|gsl::|The |Input|Non-zero|$))", re.DOTALL)
RAISED, RAISED_ZH = "it raised ", "抛出异常 "
LONGEST = 400


def at_node(judgement: Judgement) -> Judgement:
    """An error of the runtime with the node at which it stopped; anything else as it is."""
    if judgement.verdict != "error":
        return judgement
    said = OURS.sub("", judgement.summary.en)
    found = AT_NODE.search(said)
    if found is None:
        return judgement
    way, way_zh = (
        text.partition(began)[0] for text, began in ((said, RAISED), (judgement.summary.zh, RAISED_ZH))
    )
    node, kind = found["node"] or "?", found["op_type"]
    why = " ".join(SOURCE.sub("", found["why"]).split()).removeprefix("was false. ")[:LONGEST]
    return replace(
        judgement,
        summary=Text(
            f"{way}onnxruntime stops at {node} ({kind}): {why}",
            f"{way_zh}onnxruntime 在 {node}（{kind}）处中止：{why}",
        ),
        place=Place(node=node, op_type=kind),
    )
