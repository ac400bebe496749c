"""Bad packs: a copy of the bundled one with one thing spoilt. Each is refused with file, line and what was meant."""

import shutil
from pathlib import Path

import pytest
from cli_helpers import GOOD_SOFTMAX, adapter, conformance

from conformance.locations import bundled

SOURCE = bundled("spec") / "forward-pass"
SOFTMAX = "claims/q007-scale-and-softmax.yaml"


def spoilt(tmp_path: Path, file: str, old: str, new: str) -> Path:
    """A copy of the pack in which `old`, at its first place in `file`, is `new`."""
    pack = tmp_path / "pack"
    shutil.copytree(SOURCE, pack)
    text = (pack / file).read_text(encoding="utf-8")
    assert old in text
    (pack / file).write_text(text.replace(old, new, 1), encoding="utf-8")
    return pack


def line_of(text: str, file: str) -> int:
    """Where a text stands in the sound pack."""
    lines = (SOURCE / file).read_text(encoding="utf-8").split("\n")
    return next(i for i, line in enumerate(lines, 1) if text in line)


SPOILT = {
    "no YAML": ("axes.yaml", "axes:", "axes: [\n", "is not YAML: "),
    "number that YAML reads as a text": ("variants.yaml", "default: 1.0e-5", "default: 1e-5", "YAML reads 1e-5 as a string (write it with a point and a sign: 1.0e-5"),
    "key that YAML reads as a boolean": ("tensors.yaml", "tensors:", "no: 1\ntensors:", 'YAML reads the key no as a boolean (write "no":)'),
    "comma in a flow mapping": (SOFTMAX, 'holds: "sum(output, over=over) == 1"', "experiment: {change: sum(output, over=over)}", "an expression with a comma inside { } or [ ] must be quoted"),
    "unknown section": ("cases/rope.yaml", "cases:", "casess: []\ncases:", "unknown section 'casess' (did you mean 'cases'?)"),
    "unknown key": (SOFTMAX, "    of: softmax\n", "    off_: softmax\n", "unknown key 'off_'"),
    "missing key": (SOFTMAX, "    of: softmax\n", "", "'of' is missing in claims.0"),
    "text where a list belongs": (SOFTMAX, "statements: [Q7.2, Q7.15]", "statements: Q7.2", "a list is expected, not a text in claims.0.statements"),
    "text in one language": (SOFTMAX, ", zh: 沿指定轴的 softmax}", "}", "'zh' is missing in claims.0.title"),
    # the program
    "unknown tensor": ("program/attention.yaml", "softmax(masked_scores, over=key)", "softmax(masked_scroes, over=key)", "unknown tensor 'masked_scroes' (did you mean 'masked_scores'?)"),
    "unknown axis": ("program/attention.yaml", "sum(exponentials, over=over)", "sum(exponentials, over=oven)", "unknown axis 'oven' (did you mean 'over'?)"),
    "unknown function": ("program/attention.yaml", "softmax(masked_scores", "sofmax(masked_scores", "unknown function 'sofmax' (did you mean 'softmax'?)"),
    "unknown parameter": ("program/attention.yaml", "dot(x, w_q, over=model)", "dot(x, w_qq, over=model)", "unknown tensor 'w_qq' (did you mean 'w_q'?)"),
    "result of other axes": ("program/attention.yaml", "for_query_heads(values), over=key)", "for_query_heads(keys), over=key)", ", declared are [batch head query dv]"),
    # claims
    "claim twice": (SOFTMAX, "id: q007.softmax-edges", "id: q007.softmax", "the claim 'q007.softmax' stands twice"),
    "id of another question": (SOFTMAX, "id: q007.softmax-edges", "id: q008.softmax-edges", "the id 'q008.softmax-edges' should begin with 'q007.'"),
    "unknown question": (SOFTMAX, "question: Q007", "question: Q077", "unknown question 'Q077' (did you mean 'Q007'?)"),
    "unknown statement": (SOFTMAX, "[Q7.2, Q7.15]", "[Q7.2, Q7.99]", "unknown statement 'Q7.99' (did you mean 'Q7.9'?)"),
    "unknown operation": (SOFTMAX, "of: softmax\n", "of: sofmax\n", "unknown operation 'sofmax' (did you mean 'softmax'?)"),
    "case that is none": (SOFTMAX, 'cases: ["#edge"]', 'cases: ["#edges"]', "no case fits 'q007.softmax-edges'"),
    "no kind": (SOFTMAX, "    golden: output\n", "", "'q007.softmax' has no kind (exactly one of shape, equation, holds, "),
    "two kinds": (SOFTMAX, "    golden: output\n", "    golden: output\n    untouched: true\n", "'q007.softmax' has the kinds golden, untouched"),
    "golden of nothing": (SOFTMAX, "    golden: output\n", "    golden: outptu\n", "'q007.softmax' reads nothing that a target computed (it can read output)"),
    "claim that reads its inputs only": (SOFTMAX, 'holds: "output >= 0"', 'holds: "x * x >= 0"', "'q007.softmax-is-not-negative' reads nothing that a target computed"),
    "no level": (SOFTMAX, "of: softmax\n", "of: softmax\n    level: MUSS\n", "'MUSS' is no level (MUST, SHOULD or MAY)"),
    "no rung": (SOFTMAX, "of: softmax\n", "of: softmax\n    rung: opration\n", "'opration' is no rung (did you mean 'operation'?)"),
    "no expression": (SOFTMAX, 'holds: "output >= 0"', 'holds: "output >="', "'output >=' is not an expression"),
    "unknown choice": ("claims/q005-order.yaml", "when: {position: [rope]}", "when: {positoin: [rope]}", "unknown choice 'positoin' (did you mean 'position'?)"),
    "unknown value of a choice": ("claims/q005-order.yaml", "when: {position: [rope]}", "when: {position: [roop]}", "position: 'roop' is not one of none, rope, learned, sinusoidal (did you mean 'rope'?)"),
    "unknown mistake": (SOFTMAX, "from: scale-by-model-width", "from: scale-by-model-widht", "unknown mistake 'scale-by-model-widht' (did you mean 'scale-by-model-width'?)"),
    # cases
    "case of no operation": ("cases/rope.yaml", "of: rope", "of: roop", "unknown operation 'roop' (did you mean 'rope'?)"),
    "unknown size": ("cases/rope.yaml", "Dh: 8", "Dhh: 8", "unknown size 'Dhh' (did you mean 'Dh'?)"),
    "unknown input": ("cases/rope.yaml", "x: {normal: 1}", "xx: {normal: 1}", "'xx' is no input of rope"),
    "input made in two ways": ("cases/rope.yaml", "x: {normal: 1}", "x: {normal: 1, start: 3}", "exactly one of normal, integers, values, is, left_padding, tokens, start is needed"),
    "calls that are no partition": ("cases/decode.yaml", "schedule: [", "schedule: [1, ", " tokens together, and T is "),
    # variants and operations
    "variant with an unknown choice": ("variants.yaml", "    norm: rms_norm", "    nrom: rms_norm", "unknown choice 'nrom' (did you mean 'norm'?)"),
    "variant with an unknown value": ("variants.yaml", "    norm: rms_norm", "    norm: rms_nrom", "norm: 'rms_nrom' is not one of layer_norm, rms_norm (did you mean 'rms_norm'?)"),
    "operation of no function": ("operations.yaml", "function: softmax", "function: softmaxx", "unknown function 'softmaxx' (did you mean 'softmax'?)"),
    "argument of no input": ("operations.yaml", "x: {given: x}", "x: {given: xx}", "softmax has no input 'xx'"),
}  # fmt: skip


@pytest.mark.parametrize("kind", SPOILT)
def test_a_spoilt_pack_is_refused_with_its_place_before_anything_is_graded(kind, tmp_path):
    file, old, new, message = SPOILT[kind]
    pack = spoilt(tmp_path, file, old, new)
    target = adapter(tmp_path, GOOD_SOFTMAX)
    result = conformance("run", target, "--pack", pack, "-o", tmp_path / "out")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("pack: ")
    (line,) = [line for line in result.stderr.splitlines() if message in line]
    place = line.removeprefix("pack: ").partition(": ")[0]
    assert place.rpartition(":")[0] == str(pack / file)
    assert int(place.rpartition(":")[2]) >= 1
    assert not (tmp_path / "out").exists()


def test_the_line_is_that_of_the_fault(tmp_path):
    file = "program/attention.yaml"
    pack = spoilt(tmp_path, file, "softmax(masked_scores, over=key)", "softmax(masked_scroes, over=key)")
    line = line_of("softmax(masked_scores, over=key)", file)
    assert f"attention.yaml:{line}: unknown tensor" in conformance("spec", "check", "--pack", pack).stderr


def test_several_faults_are_one_message_with_a_line_each(tmp_path):
    pack = spoilt(tmp_path, SOFTMAX, "[Q7.2, Q7.15]", "[Q7.98, Q7.99]")
    result = conformance("spec", "check", "--pack", pack)
    assert result.exit_code == 2
    assert len(result.stderr.splitlines()) == 2


# What shows only when a claim is judged: `spec check` tries each on the program itself.
TRIED = {
    "unknown name": (SOFTMAX, 'holds: "output >= 0"', 'holds: "output >= zero"', "unknown tensor 'zero'"),
    "unknown axis": (SOFTMAX, "sum(output, over=over) == 1", "sum(output, over=oven) == 1", "unknown axis 'oven' (did you mean 'over'?)"),
    "unknown name in where": (SOFTMAX, 'where: "~finite(x)"', 'where: "~finite(xx)"', "unknown tensor 'xx'"),
    "change of nothing": (SOFTMAX, 'change: {x: {add: "8"}}', 'change: {y: {add: "8"}}', "the experiment changes 'y', which 'softmax-fours' has not"),
    "change that is no expression": (SOFTMAX, 'change: {x: {add: "8"}}', 'change: {x: {add: "8 +"}}', "'8 +' is not an expression"),
    "derivative by nothing": (SOFTMAX, "tensor: output, by: x,", "tensor: output, by: xx,", "'softmax-last-axis' has no 'xx'"),
    "argument that is none": ("claims/q008-layer.yaml", "argument: w_1,", "argument: w_9,", "'w_9' is no tensor argument of ffn"),
    "argument made into nothing": ("claims/q008-layer.yaml", "make: transposed", "make: transpozed", "an argument can be made 'transposed', not 'transpozed'"),
    "count of an unknown size": ("claims/q008-layer.yaml", '"4 * D * D"', '"4 * DD * D"', "unknown tensor 'DD'"),
    "unknown name in a convention": (SOFTMAX, 'zero: ["0 * output"]', 'zero: ["0 * outputt"]', "unknown tensor 'outputt' (did you mean 'output'?)"),
    "values of another shape": ("cases/rope.yaml", "x: {normal: 1}", "x: {values: [1, 2]}", "'x': values of shape [2] where [2, 3, 5, 8] is needed"),
    "claim that nothing reaches": ("claims/q005-order.yaml", "when: {causal: [\"true\"]}", "when: {causal: [\"true\"], rope_layout: [interleaved], ffn: [geglu]}", "no variant reaches 'q005.layer-causal'"),
    "mistake in no function": ("mistakes/attention.yaml", "of: attention", "of: atention", "patches an unknown function 'atention' (did you mean 'attention'?)"),
    "mistake in no tensor": ("mistakes/attention.yaml", "replace: {scores:", "replace: {scroes:", "replaces 'scroes', which attention does not have (did you mean 'scores'?)"),
    "mistake of an unknown size": ("mistakes/attention.yaml", 'over=dh) / sqrt(D)"', 'over=dh) / sqrt(DD)"', "the mistake 'scale-by-model-width': unknown tensor 'DD'"),
}  # fmt: skip


@pytest.mark.parametrize("kind", TRIED)
def test_spec_check_finds_what_shows_only_when_a_claim_is_judged(kind, tmp_path):
    file, old, new, message = TRIED[kind]
    pack = spoilt(tmp_path, file, old, new)
    result = conformance("spec", "check", "--pack", pack)
    assert (result.exit_code, result.stdout) == (2, "")
    found = [line for line in result.stderr.splitlines() if message in line]
    assert found, result.stderr
    assert all(".yaml:" in line for line in found)


def test_a_claim_that_cannot_be_judged_ends_the_run_with_its_line_and_keeps_what_was_graded(tmp_path):
    pack = spoilt(tmp_path, SOFTMAX, 'holds: "output >= 0"', 'holds: "output >= zero"')
    target, out = adapter(tmp_path, GOOD_SOFTMAX), tmp_path / "out"
    result = conformance("run", target, "--pack", pack, "-o", out)
    assert (result.exit_code, result.stdout) == (2, "")
    line = line_of("id: q007.softmax-is-not-negative", SOFTMAX)
    assert result.stderr.startswith(
        f"pack: {pack / SOFTMAX}:{line}: 'q007.softmax-is-not-negative': unknown tensor 'zero'"
    )
    kept = (out / "results.jsonl").read_text(encoding="utf-8")
    assert '"claim": "q007.softmax", ' in kept
    assert '"kind": "end"' not in kept


def test_an_undecided_statement_is_a_fault_for_spec_check_and_none_for_a_run(tmp_path):
    pack = spoilt(
        tmp_path,
        "statements.yaml",
        "  Q7.2:",
        "  Q7.77:\n    settled: T\n    says: {en: New, zh: 新}\n  Q7.2:",
    )
    result = conformance("spec", "check", "--pack", pack)
    assert result.exit_code == 2
    assert "statements.yaml:" in result.stderr
    assert "no claim decides Q7.77: New" in result.stderr
    run = conformance(
        "run", adapter(tmp_path), "--pack", pack, "--select", "q007.softmax", "-o", tmp_path / "out"
    )
    assert run.exit_code == 0


def test_folders_that_are_no_packs(tmp_path):
    missing = conformance("spec", "check", "--pack", tmp_path / "nowhere")
    assert (missing.exit_code, missing.stdout) == (2, "")
    assert missing.stderr.startswith(f"pack: {tmp_path / 'nowhere'}: there is no such pack folder")
    empty = conformance("spec", "check", "--pack", tmp_path)
    assert empty.stderr == f"pack: {tmp_path}: the pack has no pack.yaml\n"


def test_a_file_that_is_missing_or_no_text(tmp_path):
    pack = spoilt(tmp_path, "axes.yaml", "axes:", "axes:")
    (pack / "axes.yaml").write_bytes(b"\xff\xfe" + (SOURCE / "axes.yaml").read_bytes())
    assert (
        f"pack: {pack / 'axes.yaml'}: is not UTF-8\n" == conformance("spec", "check", "--pack", pack).stderr
    )
    (pack / "axes.yaml").unlink()
    assert f"pack: {pack}: the pack has no axes.yaml\n" == conformance("spec", "check", "--pack", pack).stderr


def test_the_bundled_pack_has_no_fault():
    result = conformance("spec", "check")
    assert (result.exit_code, result.stderr) == (0, "")
    assert "No fault found." in result.stdout
