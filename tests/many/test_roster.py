"""A roster as spreadsheets save it, in any country."""

import pytest
from test_grade import GOOD

from conformance.many.roster import decoded
from conformance.many.submissions import Finder, SubmissionError

NAMES = ["李雷", "韩梅梅", "Ann"]
LATIN = ["Müller", "Zoë", "Ann"]


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize(
    ("encoding", "names"),
    [("utf-8", NAMES), ("utf-8-sig", NAMES), ("utf-16", NAMES), ("gb18030", NAMES), ("cp1252", LATIN), ("utf-8", LATIN), ("utf-16", LATIN)],
)  # fmt: skip
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_a_roster_of_any_spreadsheet_is_read(tmp_path, encoding, names, delimiter, newline):
    lines = [delimiter.join(["Name", "Target", "Group"])]
    for name in names:
        (tmp_path / f"{name}.py").write_text(GOOD, encoding="utf-8")
        lines.append(delimiter.join([name, f"{name}.py", "1"]))
    lines += [delimiter * 2, delimiter * 5, ""]
    (tmp_path / "roster.csv").write_bytes(newline.join(lines).encode(encoding))
    found = Finder(["softmax"]).find([tmp_path / "roster.csv"])
    assert [(s.name, s.words, s.problem) for s in found] == [(name, (f"{name}.py",), None) for name in names]
    assert [dict(s.more) for s in found] == [{"Group": "1"}] * 3


def test_names_with_rare_characters_are_still_chinese():
    text = "name,target\n王喆,a.py\n李镕基,b.py\n张三,c.py\n"
    assert decoded(text.encode("gb18030")) == text


def test_bytes_of_no_encoding_are_kept():
    assert (
        decoded(b"name,target\nA\x81\x00,a.py").encode("utf-8", "surrogateescape")
        == b"name,target\nA\x81\x00,a.py"
    )


def test_one_column_with_another_delimiter_inside_is_no_target(tmp_path):
    (tmp_path / "roster.csv").write_text("who;what\nAnn;a.py\n")
    with pytest.raises(SubmissionError, match="a roster has a column `target`; it has who, what"):
        Finder(["softmax"]).find([tmp_path / "roster.csv"])
