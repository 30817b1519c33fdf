"""`forebay run`: which files it writes, what it answers, and what it does not pay for twice."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
from pathlib import Path

import pikepdf
import pytest

from forebay.observe import subscribe
from tests.cli.documents import Desk
from tests.pipelines.ground import pdf


def encrypted(desk: Desk, name: str) -> None:
    path = desk.put(name)
    with pikepdf.open(path, allow_overwriting_input=True) as document:
        document.save(path, encryption=pikepdf.Encryption(owner="secret", user="secret"))


# --- outputs


def test_markdown_and_json_lie_beside_the_document(desk: Desk) -> None:
    desk.put("in/scan.pdf")
    answer = desk.ok("in/scan.pdf")
    assert desk.there() == {"in/scan.pdf", "in/scan.md", "in/scan.json"}
    assert "Page 2" in desk.read("in/scan.md")
    assert json.loads(desk.read("in/scan.json"))["summary"]["page_count"] == 3
    assert (answer.out, answer.err) == ("", "in/scan.pdf: 3 pages -> in/scan.md, in/scan.json\n")


def test_outputs_go_to_the_folder_that_is_named_and_keep_the_folders_below(desk: Desk) -> None:
    desk.put("in/scan.pdf")
    desk.put("in/2024/old.pdf", text="Old {}")
    desk.ok("in", "--out", "out/here", "-f", "txt")
    assert desk.there() == {"in/scan.pdf", "in/2024/old.pdf", "out/here/scan.txt", "out/here/2024/old.txt"}


@pytest.mark.slow
def test_formats_are_given_in_a_list_or_one_by_one(desk: Desk) -> None:
    desk.put("scan.pdf")
    for given, suffixes in (
        (["-f", "md"], [".md"]),
        (["--format", "txt,json"], [".txt", ".json"]),
        (["-f", "md", "--format", " TXT , md"], [".md", ".txt"]),
        (["-f", "pdf,json"], [".ocr.pdf", ".json"]),
    ):
        (record,) = desk.ok("scan.pdf", "-o", "json", *given).json
        assert record["outputs"] == [f"scan{suffix}" for suffix in suffixes]
        assert all((desk.folder / name).stat().st_size for name in record["outputs"])
    assert desk.calls == ["1-2", "3-3"]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "There are no FILES."),
        (["scan.pdf", "-f", "docx"], "There is no format 'docx'. Formats are: md, txt, json, pdf."),
        (["scan.pdf", "-f", "md,"], "There is no format ''."),
        (["scan.pdf", "--option", "dpi"], "--option 'dpi' is not NAME=VALUE."),
        (["scan.pdf", "--option", "a=1", "--option", "a=2"], "The option 'a' is given twice."),
        (["scan.pdf", "--concurrency", "0"], "concurrency is 0."),
        (["scan.pdf", "--tenant", "No One"], "tenant"),
        (["scan.pdf", "--out", "scan.pdf"], "scan.pdf cannot be written: File exists."),
        (["scan.pdf", "--watch"], "--watch follows folders, and none is named."),
        (["empty"], "There are no documents in empty. Documents in folders end in .bmp"),
        ([""], "'' is not a file."),
    ],
)
def test_wrong_usage_is_told_before_anything_is_stored(desk: Desk, arguments: list[str], complaint: str) -> None:
    desk.put("scan.pdf")
    (desk.folder / "empty").mkdir()
    answer = desk.run(*arguments)
    assert (answer.code, answer.out, answer.err.count("\n")) == (2, "", 1), answer
    assert complaint in answer.err
    assert not desk.here.home.exists()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--processor", "nobody"], "There is no processor 'nobody'. Known processors: keywords, local."),
        (["--language", "eng+xyz"], "There is no OCR for xyz."),
        (["--option", "colour=red"], "Processor 'local' has no option 'colour'."),
        (["--option", "dpi=9"], "dpi is 9."),
    ],
)
def test_what_the_processor_does_not_know_is_told_before_anything_is_stored(
    desk: Desk, arguments: list[str], complaint: str
) -> None:
    desk.put("scan.pdf")
    for command in ("run", "estimate"):
        answer = desk.here.run(command, "scan.pdf", *arguments)
        assert (answer.code, answer.err.count("\n")) == (2, 1), answer
        assert complaint in answer.err
    assert not desk.here.home.exists()


@pytest.mark.slow
def test_a_foreign_file_is_never_written_over(desk: Desk) -> None:
    desk.put("scan.pdf")
    desk.write("scan.md", b"my own notes")
    answer = desk.run("scan.pdf")
    assert answer.code == 1
    assert "scan.md is there already, and is not an output of this document. Name another folder" in answer.err
    assert (desk.read("scan.md"), desk.calls, desk.there()) == ("my own notes", [], {"scan.pdf", "scan.md"})
    assert not (desk.here.home / "blobs").exists()
    desk.ok("scan.pdf", "--overwrite")
    assert "Page 1" in desk.read("scan.md")


def test_an_output_that_somebody_changed_is_no_longer_ours(desk: Desk) -> None:
    desk.put("scan.pdf")
    desk.ok("scan.pdf")
    desk.write("scan.md", b"corrected by hand")
    assert desk.run("scan.pdf").code == 1
    assert desk.read("scan.md") == "corrected by hand"


@pytest.mark.slow
def test_our_own_output_is_replaced_when_the_document_is_another(desk: Desk) -> None:
    desk.put("scan.pdf")
    desk.ok("scan.pdf")
    desk.put("scan.pdf", text="Sheet {}")
    desk.ok("scan.pdf")
    assert "Sheet 1" in desk.read("scan.md")


@pytest.mark.slow
def test_an_output_of_another_document_is_not_replaced(desk: Desk) -> None:
    desk.put("a/scan.pdf")
    desk.put("b/scan.pdf", text="Sheet {}")
    desk.ok("a/scan.pdf", "--out", "out")
    answer = desk.run("b/scan.pdf", "--out", "out")
    assert (answer.code, "out/scan.md is there already" in answer.err) == (1, True)
    assert "Page 1" in desk.read("out/scan.md")
    (desk.folder / "b" / "moved.pdf").write_bytes((desk.folder / "a" / "scan.pdf").read_bytes())
    (desk.folder / "b" / "moved.pdf").rename(desk.folder / "scan.pdf")
    desk.ok("scan.pdf", "--out", "out")


@pytest.mark.slow
def test_the_same_bytes_are_left_as_they_are(desk: Desk) -> None:
    desk.put("scan.pdf")
    desk.ok("scan.pdf")
    before = {name: (desk.folder / name).stat().st_mtime_ns for name in ("scan.md", "scan.json")}
    inode = (desk.folder / "scan.md").stat().st_ino
    desk.ok("scan.pdf")
    assert {name: (desk.folder / name).stat().st_mtime_ns for name in before} == before
    assert (desk.folder / "scan.md").stat().st_ino == inode


def test_a_document_is_not_written_over_by_its_own_output(desk: Desk) -> None:
    desk.put("notes.md")
    raw = (desk.folder / "notes.md").read_bytes()
    desk.ok("notes.md", "--overwrite")
    assert desk.there() == {"notes.md", "notes.md.md", "notes.md.json"}
    assert (desk.folder / "notes.md").read_bytes() == raw


def test_an_output_whose_place_is_a_folder_is_refused_before_anything_is_spent(desk: Desk) -> None:
    desk.put("scan.pdf")
    (desk.folder / "scan.md").mkdir()
    answer = desk.run("scan.pdf", "--overwrite")
    assert (answer.code, "scan.md is a folder." in answer.err, desk.calls) == (1, True, [])


def test_a_name_that_leaves_no_room_for_an_ending_is_refused_before_anything_is_spent(desk: Desk) -> None:
    desk.put(f"{'n' * 251}.pdf")
    answer = desk.run(f"{'n' * 251}.pdf", "-f", "json")
    assert (answer.code, "cannot be written: File name too long." in answer.err, desk.calls) == (2, True, [])


@pytest.mark.parametrize("order", [1, -1])
def test_documents_of_one_name_do_not_get_in_each_others_way(desk: Desk, order: int) -> None:
    desk.put("scan.pdf")
    desk.put("scan.tif.pdf", text="Sheet {}")
    shutil.copy(desk.folder / "scan.tif.pdf", desk.folder / "scan.tiff")
    answer = desk.ok(*["scan.pdf", "scan.tiff"][::order], "-f", "txt")
    assert {"scan.pdf.txt", "scan.tiff.txt"} <= desk.there()
    assert "scan.tiff: another is called so too, its outputs are scan.tiff.*" in answer.err
    assert desk.read("scan.pdf.txt").startswith("Page 1")
    assert desk.read("scan.tiff.txt").startswith("Sheet 1")


@pytest.mark.parametrize("order", [1, -1])
def test_in_one_folder_documents_of_one_name_keep_their_own(desk: Desk, order: int) -> None:
    desk.put("a/scan.pdf")
    desk.put("b/scan.pdf", text="Sheet {}")
    desk.put("b/other.pdf", text="Other {}")
    desk.ok(*["a/scan.pdf", "b/scan.pdf", "b/other.pdf"][::order], "--out", "x", "-f", "txt")
    written = {name for name in desk.there() if name.startswith("x/")}
    assert written == {"x/a/scan.pdf.txt", "x/b/scan.pdf.txt", "x/other.txt"}
    assert desk.read("x/a/scan.pdf.txt").startswith("Page 1")
    assert desk.read("x/b/scan.pdf.txt").startswith("Sheet 1")


# --- folders and odd files


@pytest.mark.slow
def test_a_folder_is_searched_but_not_what_is_hidden_nor_our_own_outputs(desk: Desk) -> None:
    desk.put("in/one.pdf")
    desk.put("in/deep/er/TWO.PDF", text="Two {}")
    for name in ("in/.hidden.pdf", "in/.git/three.pdf", "in/notes.txt"):
        desk.put(name, text="No {}")
    first = desk.ok("in", "-f", "pdf", "-o", "json").json
    assert {each["file"] for each in first} == {"in/one.pdf", "in/deep/er/TWO.PDF"}
    assert desk.ok("in", "-f", "pdf", "-o", "json").json == first


def test_a_file_that_is_named_twice_is_one_document(desk: Desk) -> None:
    desk.put("in/scan.pdf")
    records = desk.ok("in/scan.pdf", "in", "./in/../in/scan.pdf", "-o", "json").json
    assert [each["file"] for each in records] == ["in/scan.pdf"]


def test_a_link_is_read_and_has_outputs_of_its_own(desk: Desk) -> None:
    desk.put("in/scan.pdf")
    (desk.folder / "in" / "link.pdf").symlink_to("scan.pdf")
    (desk.folder / "in" / "dangling.pdf").symlink_to("nothing.pdf")
    (desk.folder / "in" / "loop").symlink_to("..")
    desk.ok("in", "-f", "txt")
    assert {"in/scan.txt", "in/link.txt"} <= desk.there()
    assert desk.calls == ["1-2", "3-3"]


def test_what_is_missing_or_cannot_be_read_is_said_and_the_others_are_done(desk: Desk) -> None:
    desk.put("scan.pdf")
    answer = desk.run("scan.pdf", "missing.pdf", "/proc/self/mem", "-o", "json")
    assert answer.code == 3
    found = {each["file"]: (each["status"], each["error_class"], each["exit_code"]) for each in answer.json}
    assert found == {
        "scan.pdf": ("completed", None, 0),
        "missing.pdf": ("refused", "not_found", 4),
        "/proc/self/mem": ("refused", "refused", 7),
    }
    assert "/proc/self/mem: refused: It cannot be read: Input/output error." in answer.err


def test_a_pipe_is_refused_and_not_waited_for(desk: Desk) -> None:
    os.mkfifo(desk.folder / "pipe.pdf")
    answer = desk.run("pipe.pdf")
    assert (answer.code, "It is a device or a pipe." in answer.err) == (7, True)


@pytest.mark.slow
def test_the_exit_code_tells_whether_all_or_some_were_refused(desk: Desk) -> None:
    desk.write("text.pdf", b"only text")
    desk.write("empty.pdf", b"")
    encrypted(desk, "locked.pdf")
    desk.put("good.pdf")
    for names, code in (
        (["missing.pdf"], 4),
        (["text.pdf", "empty.pdf"], 7),
        (["text.pdf", "missing.pdf"], 7),
        (["text.pdf", "locked.pdf"], 7),
        (["good.pdf", "text.pdf"], 3),
        (["good.pdf"], 0),
    ):
        assert (names, desk.run(*names).code) == (names, code)


# --- what is not paid for twice


@pytest.mark.slow
def test_a_second_run_makes_no_call_whatever_the_file_is_called(desk: Desk) -> None:
    desk.put("scan.pdf")
    desk.ok("scan.pdf")
    assert desk.calls == ["1-2", "3-3"]
    desk.ok("scan.pdf", "--out", "elsewhere")
    shutil.copy(desk.folder / "scan.pdf", desk.folder / "copy.bin")
    desk.ok("copy.bin")
    assert desk.calls == ["1-2", "3-3"]
    assert desk.read("copy.md") == desk.read("scan.md") == desk.read("elsewhere/scan.md")
    desk.ok("scan.pdf", "--no-reuse")
    assert desk.calls == ["1-2", "1-2", "3-3", "3-3"]


@pytest.mark.slow
def test_a_merged_result_that_is_lost_or_damaged_is_made_again_without_a_call(desk: Desk) -> None:
    desk.put("scan.pdf")
    (record,) = desk.ok("scan.pdf", "-o", "json").json
    with desk.here.app() as app:
        merge = app.ledger.get(app.ledger.get_job(record["job_id"]).merge_id)  # type: ignore[union-attr,arg-type]
    assert merge is not None
    (blob,) = desk.here.home.rglob(str(merge.result_blob))
    before = desk.read("scan.json")
    blob.write_bytes(before.encode().replace(b"Page 1", b"Pagy 1"))
    (desk.folder / "scan.json").unlink()
    desk.ok("scan.pdf")
    assert (desk.read("scan.json"), desk.calls) == (before, ["1-2", "3-3"])
    blob.unlink()
    desk.ok("scan.pdf", "--out", "again")
    assert (desk.read("again/scan.json"), desk.calls) == (before, ["1-2", "3-3"])


def test_a_document_that_the_store_lost_is_taken_in_again(desk: Desk) -> None:
    path = desk.put("scan.pdf")
    desk.ok("scan.pdf")
    with desk.here.app() as app:
        stored = [ref.sha256 for ref in app.blobs.list("default")]
    originals = [
        blob for name in stored for blob in desk.here.home.rglob(name) if blob.read_bytes() == path.read_bytes()
    ]
    for blob in originals:
        blob.unlink()
    assert originals
    desk.ok("scan.pdf", "-f", "pdf")
    assert (desk.folder / "scan.ocr.pdf").read_bytes().startswith(b"%PDF-")


@pytest.mark.slow
def test_a_document_of_which_every_stored_byte_is_damaged_is_read_again(desk: Desk) -> None:
    desk.put("scan.pdf")
    desk.ok("scan.pdf")
    before = desk.read("scan.json")
    for blob in (desk.here.home / "blobs").rglob("*"):
        if blob.is_file():
            blob.write_bytes(b"?" + blob.read_bytes()[1:])
    desk.ok("scan.pdf", "--out", "again")
    assert desk.read("again/scan.json") == before
    assert desk.calls == ["1-2", "1-2", "3-3", "3-3"]
    desk.ok("scan.pdf", "--out", "third", "-f", "pdf")
    assert len(desk.calls) == 4


# --- what failed


@pytest.mark.slow
def test_a_document_that_failed_is_retried_by_the_same_command_until_it_is_permanent(desk: Desk) -> None:
    desk.put("scan.pdf")
    desk.tell("down", 3)
    for made in range(1, 5):
        answer = desk.run("scan.pdf", "--max-retries", "1")
        assert (answer.code, "scan.pdf: failed: service_unavailable: " in answer.err) == (1, True), answer
        assert desk.calls == ["1-2", *["3-3"] * 2 * made]
    answer = desk.run("scan.pdf", "--max-retries", "1", "-o", "json")
    assert answer.code == 1
    assert (answer.json[0]["status"], answer.json[0]["error_class"]) == ("failed", "RETRY_LIMIT_EXCEEDED")
    assert answer.json[0]["error_text"].startswith("PERMANENT: chunk 1, page 3 (3 of 3 requested retries are used).")
    assert answer.json[0]["remedy"] == "Give --force."
    assert len(desk.calls) == 9
    job = answer.json[0]["job_id"]
    assert "again:           4 retries, 0 reschedules, 3 requested retries" in desk.here.ok("get", job).out
    desk.tell("down", 0)
    assert desk.run("scan.pdf", "--max-retries", "1").code == 1
    desk.ok("scan.pdf", "--max-retries", "1", "--force")
    assert desk.calls == ["1-2", *["3-3"] * 9]
    assert "again:           4 retries, 0 reschedules, 4 requested retries" in desk.here.ok("get", job).out


def test_after_a_short_outage_the_same_command_needs_no_force(desk: Desk) -> None:
    desk.put("scan.pdf", 1)
    desk.tell("down", 1)
    answer = desk.run("scan.pdf", "-o", "json")
    assert (answer.code, len(desk.calls)) == (1, 4)
    desk.tell("down", 0)
    heard: list[dict[str, object]] = []
    unsubscribe = subscribe(lambda name, fields: heard.append(dict(fields)) if name == "retry_requested" else None)
    desk.ok("scan.pdf")
    unsubscribe()
    assert len(desk.calls) == 5
    assert [(each["targets"], each["done_count"]) for each in heard] == [([answer.json[0]["job_id"]], 1)]


def test_after_a_short_outage_retry_needs_no_force(desk: Desk) -> None:
    desk.put("scan.pdf", 1)
    desk.tell("down", 1)
    job = desk.run("scan.pdf", "-o", "json").json[0]["job_id"]
    desk.tell("down", 0)
    desk.here.ok("retry", job)
    desk.ok("scan.pdf")


@pytest.mark.slow
def test_what_a_provider_refused_is_not_sent_again_by_the_same_command(desk: Desk) -> None:
    desk.put("scan.pdf")
    desk.tell("refuse", 3)
    for _ in range(2):
        answer = desk.run("scan.pdf", "-o", "json")
        assert (answer.code, answer.json[0]["error_class"]) == (1, "refused")
        assert "1 of 2 chunks failed: page 3 (refused: unreadable)" in answer.json[0]["error_text"]
        assert desk.calls == ["1-2", "3-3"]
    desk.tell("refuse", 0)
    desk.ok("scan.pdf", "--force")


def test_the_options_of_chunks_come_from_the_command_line_over_the_settings(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOREBAY_CHUNK_MAX_RETRIES", "9")
    monkeypatch.setenv("FOREBAY_CHUNK_MAX_RESCHEDULES", "4")
    desk.put("scan.pdf", 1)
    desk.ok("scan.pdf", "--max-retries", "20", "--timeout", "7.5")
    kinds = {each["kind"]: each for each in desk.here.ok("list", "-o", "json").json}
    chunk = kinds["ocr.noted"]
    assert (chunk["max_retries"], chunk["timeout_s"], chunk["max_reschedules"]) == (20, 7.5, 4)
    assert (chunk["page_start"], chunk["page_end"]) == (1, 1)
    assert kinds["ocr.split"]["max_retries"] == kinds["ocr.merge"]["max_retries"] == 3
    assert desk.run("scan.pdf", "--max-retries", "-1").code == 2


@pytest.mark.slow
def test_a_document_that_was_refused_by_what_it_holds_is_not_retried(desk: Desk) -> None:
    encrypted(desk, "locked.pdf")
    answers = [desk.run("locked.pdf", "-o", "json") for _ in range(5)]
    assert [(each.code, each.json[0]["error_class"]) for each in answers] == [(7, "encrypted")] * 5
    assert answers[0].err.count("password") == 2  # what it is, and once what to do
    with desk.here.app() as app:
        assert app.get(answers[0].json[0]["job_id"]).generation == 1


def test_a_document_whose_job_was_canceled_is_taken_up_again(desk: Desk) -> None:
    desk.put("scan.pdf")
    desk.tell("down", 1)
    job_id = desk.run("scan.pdf", "-o", "json").json[0]["job_id"]
    desk.here.run("cancel", job_id)
    desk.tell("down", 0)
    desk.ok("scan.pdf")


def test_some_that_failed_make_it_three_and_the_others_are_written(desk: Desk) -> None:
    desk.put("long.pdf", 3)
    desk.put("short.pdf", 1, text="Short {}")
    desk.tell("refuse", 3)
    assert desk.run("long.pdf", "short.pdf").code == 3
    assert desk.there() == {"long.pdf", "short.pdf", "short.md", "short.json"}


def test_with_holes_allowed_every_output_names_the_pages_that_are_missing(desk: Desk) -> None:
    desk.put("scan.pdf")
    desk.tell("refuse", 3)
    answer = desk.ok("scan.pdf", "--allow-holes", "-f", "md,txt,json,pdf", "-o", "json")
    assert (answer.json[0]["page_count"], answer.json[0]["missing_page_count"]) == (3, 1)
    assert "scan.pdf: 3 pages, 1 of them missing -> " in answer.err
    assert "Page 3 is missing" in desk.read("scan.md")
    assert "unreadable" in desk.read("scan.md")
    assert "[page 3 is missing: refused: unreadable]" in desk.read("scan.txt")
    hole = {"page_start": 3, "page_end": 3, "error_class": "refused", "error_text": "unreadable"}
    assert json.loads(desk.read("scan.json"))["summary"]["holes"] == [hole]
    with pikepdf.open(desk.folder / "scan.ocr.pdf") as document:
        notes = [[str(note.Contents) for note in page.obj.get("/Annots", [])] for page in document.pages]
    assert notes == [[], [], ["This page was not read. refused: unreadable"]]


def test_a_document_that_breaks_off_is_read_and_every_output_names_the_pages_that_lost_something(desk: Desk) -> None:
    plain = io.BytesIO()
    with pikepdf.open(io.BytesIO(pdf(6))) as document:
        document.save(plain, compress_streams=False, stream_decode_level=pikepdf.StreamDecodeLevel.generalized)
    raw = plain.getvalue()
    desk.write("cut.pdf", raw[: raw.index(b"(Page 4)")])
    answer = desk.ok("cut.pdf", "-f", "md,txt,json,pdf")
    assert (
        "cut.pdf: 6 pages (the document is damaged, and was repaired; something is lost of 3 pages, the" in answer.err
    )
    result = json.loads(desk.read("cut.json"))
    why = "part of the page may be missing: it has no content, and the document is damaged"
    assert [page["notes"] for page in result["pages"]] == [[], [], [], [why], [why], [why]]
    assert result["summary"]["notes"] == ["something is lost of 3 pages, the first of them page 4"]
    assert "<!-- page 4 -->\n\n> **Page 4**: part of the page may be missing: it has no content" in desk.read("cut.md")
    assert "[page 5: part of the page may be missing: it has no content" in desk.read("cut.txt")
    with pikepdf.open(desk.folder / "cut.ocr.pdf") as document:
        notes = [[str(note.Contents) for note in page.obj.get("/Annots", [])] for page in document.pages]
    assert notes == [[], [], [], [why], [why], [why]]
    desk.put("whole.pdf", 6)
    assert desk.ok("whole.pdf").err == "whole.pdf: 6 pages -> whole.md, whole.json\n"


@pytest.mark.slow
def test_a_budget_that_is_used_up_ends_it_with_its_own_code(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOREBAY_BUDGETS", "pages=3/day")
    desk.put("long.pdf", 6)
    desk.put("short.pdf", 1, "Short {}")
    desk.ok("short.pdf")
    answer = desk.run("short.pdf", "long.pdf", "-o", "json")
    assert answer.code == 8
    assert [each["status"] for each in answer.json] == ["completed", "interrupted"]
    assert "the budget of 3 pages a day is used up: 1 of 2 documents are done. The same command" in answer.err
    assert len(desk.calls) == 2


@pytest.mark.slow
def test_a_budget_that_was_raised_is_noticed_by_the_same_command_at_once(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOREBAY_BUDGETS", "noted:pages=2/day")
    desk.put("long.pdf", 6)
    answer = desk.run("long.pdf", "-o", "json")
    assert (answer.code, len(desk.calls)) == (8, 1)
    assert "forebay: the rest waits until its budget begins anew; " in answer.err
    job_id = answer.json[0]["job_id"]
    assert desk.here.ok("get", job_id, "-o", "json").json["pages"]["call_count"] == 1
    assert desk.here.ok("why", job_id, "-o", "json").json["more_workers_help"] is False
    monkeypatch.setenv("FOREBAY_BUDGETS", "noted:pages=6/day")
    desk.ok("long.pdf")
    assert desk.calls == ["1-2", "3-4", "5-6"]
    assert desk.here.ok("get", job_id, "-o", "json").json["pages"]["call_count"] == 3


# --- what it answers


def test_json_is_one_list_and_ndjson_a_line_for_each(desk: Desk) -> None:
    desk.put("scan.pdf")
    desk.write("text.pdf", b"only text")
    whole = desk.run("scan.pdf", "text.pdf", "-o", "json").json
    lines = [json.loads(line) for line in desk.run("scan.pdf", "text.pdf", "-o", "ndjson").lines]
    assert sorted(lines, key=lambda each: each["file"]) == whole
    reference = (Path(__file__).parents[2] / "docs" / "reference" / "cli.md").read_text()
    documented = re.search(r"^### run$.*?^\| field \|[^\n]*\n[^\n]*\n(.*?)\n\n", reference, re.MULTILINE | re.DOTALL)
    assert documented is not None
    assert [line.split()[1] for line in documented[1].splitlines()] == list(whole[0])


@pytest.mark.slow
def test_a_job_shows_its_pages_and_what_they_cost(desk: Desk) -> None:
    desk.put("scan.pdf", 5)
    desk.tell("refuse", 5)
    (record,) = desk.ok("scan.pdf", "--allow-holes", "-o", "json").json
    pages = desk.here.ok("get", record["job_id"], "-o", "json").json["pages"]
    assert pages == {
        "page_count": 5,
        "done_page_count": 4,
        "reused_page_count": 0,
        "missing_page_count": 1,
        "call_count": 3,
        "retry_count": 0,
        "reschedule_count": 0,
        "requested_retry_count": 0,
    }
    shown = desk.here.ok("get", record["job_id"]).out
    assert "5: 4 read (0 of them used again), 1 missing\n" in shown
    (other,) = desk.run("scan.pdf", "-o", "json").json
    assert desk.here.ok("get", other["job_id"], "-o", "json").json["pages"]["reused_page_count"] == 4


def test_names_that_a_terminal_would_obey_are_shown_escaped(desk: Desk) -> None:
    desk.write("evil\x1b[31m\n.pdf", pdf(1))
    answer = desk.ok("evil\x1b[31m\n.pdf", "-o", "json")
    assert answer.json[0]["file"] == "evil\x1b[31m\n.pdf"
    assert "\x1b" not in answer.err + answer.out
    assert answer.err.count("\n") == 1


# --- with the processor that comes along


def test_the_local_processor_reads_a_document_into_every_format(desk: Desk) -> None:
    desk.put("scan.pdf")
    answer = desk.here.ok("run", "scan.pdf", "-f", "md,txt,json,pdf", "-o", "json")
    assert desk.there() == {"scan.pdf", "scan.md", "scan.txt", "scan.json", "scan.ocr.pdf"}
    job_id = answer.json[0]["job_id"]
    for form, name in {"md": "scan.md", "txt": "scan.txt", "json": "scan.json", "pdf": "scan.ocr.pdf"}.items():
        desk.here.ok("result", job_id, "-f", form, "-o", "handed-out", "--overwrite")
        assert (desk.folder / "handed-out").read_bytes() == (desk.folder / name).read_bytes()
