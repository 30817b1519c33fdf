"""`forebay run --pipeline segment`: which documents it takes, which files it writes, and what it answers."""

from __future__ import annotations

import json

import pytest

from tests.cli.documents import Desk
from tests.segment.ground import TEXT
from tests.segment.written import docx, paragraph

REPORT = docx(paragraph("Report", heading=1), paragraph("All is well with the weir and with the water."))


@pytest.mark.slow
def test_markdown_and_articles_lie_beside_the_documents_and_are_no_documents_the_next_time(desk: Desk) -> None:
    desk.write("in/report.docx", REPORT)
    desk.write("in/notes.md", TEXT.encode())
    desk.write("in/deep/page.html", b"<h1>Page</h1><p>Of the sea and of its stones.")
    desk.write("in/left.out", b"x")
    documents = {"in/report.docx", "in/notes.md", "in/deep/page.html", "in/left.out"}
    outputs = {
        "in/report.md", "in/report.articles.json", "in/deep/page.md", "in/deep/page.articles.json",
        "in/notes.md.md", "in/notes.md.articles.json",
    }  # fmt: skip
    for _ in range(2):
        answer = desk.here.run("run", "in", "--pipeline", "segment", "-o", "json")
        assert (answer.code, len(answer.json)) == (0, 3), answer
        assert {name for record in answer.json for name in record["outputs"]} == outputs
        assert desk.there() == documents | outputs
    assert desk.read("in/report.md") == "# Report\n\nAll is well with the weir and with the water.\n\n"
    found = json.loads(desk.read("in/notes.md.articles.json"))
    assert [each["title"] for each in found["articles"]] == ["River", "Wehr", "Sea"]
    answer = desk.here.run("run", "in/report.docx", "--pipeline", "segment", "-o", "json")
    job = next(record["job_id"] for record in answer.json if record["file"] == "in/report.docx")
    assert desk.here.run("result", job, "-f", "md").out == desk.read("in/report.md")
    assert desk.here.run("get", job).code == 0


def test_some_are_refused_and_the_others_are_written(desk: Desk) -> None:
    desk.write("notes.txt", b"A few words about water.")
    desk.write("broken.docx", REPORT[:-40])
    desk.write("what.bin", bytes(100))
    answer = desk.here.run(
        "run", "notes.txt", "broken.docx", "what.bin", "--pipeline", "segment", "--out", "out", "-o", "json"
    )
    assert answer.code == 3, answer
    assert [(record["status"], record["error_class"]) for record in answer.json] == [
        ("completed", None), ("refused", "unsupported_format"), ("refused", "unsupported_format")
    ]  # fmt: skip
    assert desk.there() == {"notes.txt", "broken.docx", "what.bin", "out/notes.md", "out/notes.articles.json"}


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--pipeline", "fold"], "There is no pipeline 'fold'. There are: ocr, autotag, segment."),
        (["--pipeline", "segment", "--processor", "local"], "'local' is of the pipeline 'ocr', not of 'segment'."),
        (["--pipeline", "segment", "--processor", "nobody"], "There is no processor 'nobody'."),
        (["--pipeline", "segment", "-f", "txt"], "There is no format 'txt'. Formats are: md, json."),
        (["--pipeline", "segment", "--option", "max_size=9"], "max_size is 9."),
        (["--pipeline", "segment", "--option", "colour=red"], "Processor 'keywords' has no option 'colour'."),
        (["--pipeline", "autotag"], "Processor 'adobe' is not set up."),
    ],
)
def test_wrong_words_are_told_before_anything_is_stored(desk: Desk, arguments: list[str], complaint: str) -> None:
    desk.write("notes.md", TEXT.encode())
    answer = desk.here.run("run", "notes.md", *arguments)
    assert (answer.code, answer.err.count("\n")) == (2, 1), answer
    assert complaint in answer.err
    assert not desk.here.home.exists()


def test_an_estimate_of_articles_is_refused_with_what_to_do_instead(desk: Desk) -> None:
    desk.write("notes.md", TEXT.encode())
    answer = desk.here.run("estimate", "notes.md", "--processor", "keywords")
    assert (answer.code, answer.err.count("\n")) == (2, 1), answer
    assert "Estimate the pages alone" in answer.err
