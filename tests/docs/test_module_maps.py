"""The guide to maps does what it says."""

from guide import ROOT, Block, blocks, follow

from conformance.maps.documents import MapDocument
from conformance.maps.target import ready_maps

GUIDE = blocks("module-maps.md")
TEXT = (ROOT / "docs" / "module-maps.md").read_text(encoding="utf-8")


def test_the_first_map_and_what_is_said_of_it(tmp_path):
    assert len(list(follow(GUIDE, tmp_path))) == 3


def test_the_map_that_it_ends_with_conforms(tmp_path):
    files = [block for block in GUIDE if block.first in ("# my_gpt.py", "# gpt.yaml")]
    console = Block(
        "console", "$ conformance run pytorch my_gpt.py:GPT --map gpt.yaml\nconforms in all it offers", 0
    )
    assert list(follow([*files, console], tmp_path))


def test_every_key_and_every_transform_is_on_the_page():
    # Read as text: the package is the worker's, and stands on nobody's path here.
    source = (ROOT / "adapters" / "module_map" / "transforms.py").read_text(encoding="utf-8")
    names = source.partition("TRANSFORMS: dict")[2].partition("(\n")[2].partition("\n    )")[0]
    for name in (line.strip(" ,") for line in names.splitlines()):
        assert f"`{name}(" in TEXT, name
    for key in (field.rstrip("_") for field in MapDocument.__struct_fields__ if field != "hub"):
        assert f"`{key}`" in TEXT, key


def test_every_ready_map_is_named():
    plain = TEXT.replace("-", "").lower()
    for name in ready_maps():
        short = name.rpartition(":")[2].removesuffix("ForCausalLM").removesuffix("LMHeadModel").lower()
        assert short in plain or name.startswith(("torch.nn", "x_transformers")), name
