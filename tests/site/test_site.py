"""The pack as a site: everything that the pack says is on it, in both languages, and every link leads somewhere."""

import html.parser
import re

import pytest
from click.testing import CliRunner

from conformance import cli
from conformance.claim_lines import equation_of
from conformance.cli.options import open_pack
from conformance.language.expression import parse
from conformance.pack.flow import layer_flow
from conformance.site.build import build
from conformance.site.mathml import equation, formula


class Links(html.parser.HTMLParser):
    def __init__(self, source):
        super().__init__()
        self.ids, self.hrefs, self.tags = [], [], []
        self.feed(source)

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.tags.append(tag)
        self.ids += [found["id"]] if "id" in found else []
        self.hrefs += [found["href"]] if "href" in found else []


@pytest.fixture(scope="module")
def pack():
    return open_pack(None, mistakes=True)


@pytest.fixture(scope="module")
def site(pack, tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    return {path.name: path.read_text(encoding="utf-8") for path in build(pack, folder)}


def test_there_is_a_page_for_each_question_and_all_that_hangs_together(site):
    assert set(site) == {
        "index.html", "q005.html", "q006.html", "q007.html", "q008.html", "mistakes.html", "tensors.html", "coverage.html",
    }  # fmt: skip


def test_every_claim_with_a_formula_shows_it(pack, site):
    """What a report gives as the equation of a claim is on its page: typeset, or as the call that it is."""
    shown = {}
    for source in site.values():
        for article in re.findall(r"<article.*?</article>", source, re.DOTALL):
            shown[re.search(r'id="([^"]+)"', article)[1]] = (
                "<math" in article or '<code class="source">' in article
            )
    kinds = set()
    for claim in pack.claims.values():
        if equation_of(pack, claim):
            kinds.add(claim.kind)
            assert shown[claim.id], claim.id
    assert kinds == {"golden", "equation", "holds"}


def test_every_choice_of_a_variant_is_on_the_first_page(pack, site):
    rows = re.findall(r'<tr><th scope="row">(\w+)</th>', site["index.html"])
    assert rows == list(pack.choices)


def test_every_link_leads_somewhere_and_nothing_comes_from_elsewhere(site):
    found = {name: Links(source) for name, source in site.items()}
    for name, links in found.items():
        assert len(links.ids) == len(set(links.ids)), name
        assert not {"img", "link", "iframe"} & set(links.tags)
        for href in links.hrefs:
            file, _, anchor = href.partition("#")
            target = found[file or name]
            assert not anchor or anchor in target.ids, href


def test_every_claim_statement_mistake_and_tensor_is_there_in_both_languages(pack, site):
    for claim in pack.claims.values():
        assert f'id="{claim.id}"' in site[f"{claim.question.lower()}.html"]
    questions = "".join(site[f"{name.lower()}.html"] for name in pack.questions)
    for statement in pack.statements.values():
        if statement.id.startswith("Q"):
            assert f'id="{statement.id}"' in questions
    for mistake in pack.program.mistakes:
        assert f'id="{mistake}"' in site["mistakes.html"]
    for tensor in pack.program.tensors:
        assert f'id="{tensor}"' in site["tensors.html"]
    for source in site.values():
        assert source.count('<i lang="en">') == source.count('<i lang="zh">') > 5


def test_the_command_writes_it_and_says_where(tmp_path):
    done = CliRunner().invoke(cli.main, ["spec", "render", "-o", str(tmp_path / "a" / "site")])
    assert (done.exit_code, done.output) == (0, f"8 pages: {tmp_path}/a/site/index.html\n")
    (tmp_path / "file").touch()
    done = CliRunner().invoke(cli.main, ["spec", "render", "-o", str(tmp_path / "file")])
    assert done.exit_code == 2
    assert "choose another place with -o" in done.output


def plain(markup):
    return re.sub(r"<[^>]+>", "", str(markup))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a - (b - c)", "a−(b−c)"),
        ("a - b - c", "a−b−c"),
        ("(a + b) * c", "(a+b)·c"),
        ("-(a + b)", "−(a+b)"),
        ("(a ** b) ** c", "(ab)c"),
        ("sum(a + b, over=key) == 1", "∑key(a+b)=1"),
        ("dot(q, f(k), over=dh) / sqrt(Dh)", "∑dhq·f(k)Dh"),
        ("where(x & y, exp(-z), inf)", "where(x∧y,e−z,∞)"),
        ("merge(z, (head, dv), into=head_dv)", "merge(z,(head,dv),into=head_dv)"),
    ],
)
def test_formulas_keep_their_parentheses(text, shown):
    assert plain(formula(parse(text))) == shown


def test_a_formula_has_fractions_roots_and_indices():
    markup = str(equation("w_q", parse("a / sqrt(b) + x ** 2")))
    assert "<msub><mi>w</mi><mi>q</mi></msub>" in markup
    assert "<mfrac><mrow><mi>a</mi></mrow><mrow><msqrt><mi>b</mi></msqrt></mrow></mfrac>" in markup
    assert "<msup><mi>x</mi><mrow><mn>2</mn></mrow></msup>" in markup


# -- how the tensors of a layer are made of one another -----------------------------------------------


def test_a_layer_is_read_off_the_program(pack):
    flow = {stage.tensor: stage.sources for stage in layer_flow(pack, pack.variants["llama"])}
    assert next(iter(flow)) == "x"
    assert list(flow)[-1] == "y"
    assert flow["scores"] == ("q_rot", "keys")
    assert flow["z"] == ("values", "weights")
    assert flow["u"] == ("x", "attn_out")
    assert flow["ffn_hidden"] == ("ffn_gate", "ffn_up")
    assert "visible" not in flow
    seen = set()
    for name, sources in flow.items():
        assert set(sources) <= seen
        seen.add(name)
    crossed = {stage.tensor: stage.sources for stage in layer_flow(pack, pack.variants["vaswani"])}
    assert crossed["cross_attention.q"] == ("u",)
    assert crossed["c"] == ("u", "cross_attention.attn_out")
    assert "norm1" not in crossed
