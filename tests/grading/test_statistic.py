"""A statistic without sampling error still allows what the dtype's rounding moves it by."""

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from conformance.cli import main
from conformance.locations import bundled

CLAIM = """
  - id: q007.centred-on-average
    statements: [Q7.9]
    of: layer_norm
    cases: [layer-norm-unit]
    title: {en: A norm without its bias has mean 0, zh: 去掉偏置的归一化均值为 0}
    says: {en: What a norm without gain makes has mean 0., zh: 无增益的归一化结果均值为 0。}
    statistic: {tensor: output, expression: "mean(output, over=model)", equals: 0}
"""


@pytest.fixture(scope="module")
def pack(tmp_path_factory):
    folder = tmp_path_factory.mktemp("statistic") / "pack"
    shutil.copytree(bundled("spec") / "forward-pass", folder)
    with (folder / "claims" / "q007-scale-and-softmax.yaml").open("a", encoding="utf-8") as file:
        file.write(CLAIM)
    return folder


def verdicts(pack: Path, path: Path, folder: Path) -> dict[str, str]:
    command = [
        "run",
        str(path),
        "--pack",
        str(pack),
        "--select",
        "q007.*-on-average",
        "-o",
        str(folder),
        "-q",
    ]
    CliRunner().invoke(main, [*command, "--variant", "minimal", "--dtype", "float32"])
    lines = [json.loads(line) for line in (folder / "results.jsonl").read_text(encoding="utf-8").splitlines()]
    return {line["claim"]: line["verdict"] for line in lines if line["kind"] == "verdict"}


def test_rounding_is_no_fault(pack, tmp_path):
    found = verdicts(pack, bundled("adapters") / "numpy_reference.py", tmp_path)
    assert found == {"q007.centred-on-average": "pass"}


def test_a_mean_that_is_off_is_one(pack, tmp_path):
    path = tmp_path / "off.py"
    path.write_text(
        "def layer_norm(x, weight, bias, eps):\n"
        "    centred = x - x.mean(-1, keepdims=True)\n"
        "    return (centred / (centred.std(-1, keepdims=True) + eps) + 1e-3) * weight + bias\n"
    )
    assert verdicts(pack, path, tmp_path)["q007.centred-on-average"] == "fail"
