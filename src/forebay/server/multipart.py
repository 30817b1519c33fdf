"""Splits a multipart form as it comes: small fields are kept, the one file is handed on piece by piece."""

from __future__ import annotations

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from forebay.server.problems import Refused

MAX_FIELDS = 32
MAX_FIELD_BYTES = 64 * 1024
_MAX_HEADERS = 16
_MAX_HEADER_BYTES = 8 * 1024
_FILE = "file"
_NAME_IT = "The document's part needs a filename, as of `curl -F file=@scan.pdf`; with `<` in place of `@` it has none."


class Form:
    """`feed` gives back the bytes of the file that were in what it was fed."""

    def __init__(self, content_type: str) -> None:
        _, options = parse_options_header(content_type)
        boundary = options.get(b"boundary", b"")
        if not boundary:
            raise _bad("has no boundary")
        self.fields: dict[str, str] = {}
        self.file_name: str | None = None
        self._file_count = 0
        self._in_file = False
        self._name = ""
        self._header = [b"", b""]
        self._disposition = b""
        self._held = b""
        self._size = 0
        self._out: list[bytes] = []
        self._ended = False
        try:
            self._parser = MultipartParser(
                boundary,
                {
                    "on_part_begin": self._begin,
                    "on_header_field": self._header_field,
                    "on_header_value": self._header_value,
                    "on_header_end": self._header_end,
                    "on_headers_finished": self._headers_finished,
                    "on_part_data": self._data,
                    "on_part_end": self._part_end,
                    "on_end": self._end,
                },
                max_header_count=_MAX_HEADERS,
                max_header_size=_MAX_HEADER_BYTES,
            )
        except FormParserError:
            raise _bad("has a boundary that is too long") from None

    def feed(self, data: bytes) -> bytes:
        try:
            self._parser.write(data)
        except FormParserError:
            raise _bad("is not a form") from None
        out, self._out = b"".join(self._out), []
        return out

    def finish(self) -> None:
        if not self._ended:
            raise _bad("ends before its last boundary")
        if not self._file_count:
            raise Refused(
                422, "no_file", "The form has no file.", remedy=f"Send the document as the part `{_FILE}`. {_NAME_IT}"
            )

    def _begin(self) -> None:
        self._in_file = False
        self._header = [b"", b""]
        self._disposition = b""
        self._held = b""

    def _header_field(self, data: bytes, start: int, end: int) -> None:
        self._header[0] += data[start:end]

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        self._header[1] += data[start:end]

    def _header_end(self) -> None:
        if self._header[0].lower() == b"content-disposition":
            self._disposition = self._header[1]
        self._header = [b"", b""]

    def _headers_finished(self) -> None:
        _, options = parse_options_header(self._disposition.decode("latin-1"))
        self._name = options.get(b"name", b"").decode("utf-8", "replace")
        if b"filename" not in options:
            if self._name == _FILE:
                raise Refused(
                    422,
                    "no_filename",
                    f"The part `{_FILE}` is a field: it has no filename.",
                    remedy=_NAME_IT,
                    closing=True,
                )
            return
        self._in_file = True
        self._file_count += 1
        if self._file_count > 1:
            raise Refused(422, "two_files", "The form has more than one file.", remedy="Send one document at a time.")
        self.file_name = options[b"filename"].decode("utf-8", "replace")

    def _data(self, data: bytes, start: int, end: int) -> None:
        if self._in_file:
            self._out.append(data[start:end])
            return
        self._size += end - start
        if self._size > MAX_FIELD_BYTES:
            raise Refused(
                413,
                "form_too_large",
                f"The fields of the form have more than {MAX_FIELD_BYTES:,} bytes.",
                remedy=f"Send less in them. {_NAME_IT}",
                closing=True,
            )
        self._held += data[start:end]

    def _part_end(self) -> None:
        if self._in_file:
            return
        if self._name in self.fields or len(self.fields) == MAX_FIELDS:
            raise Refused(422, "bad_form", "The form has a field twice, or too many.", remedy="Send each field once.")
        try:
            self.fields[self._name] = self._held.decode("utf-8")
        except UnicodeDecodeError:
            raise Refused(422, "bad_form", "A field of the form is not UTF-8.", remedy="Encode it as UTF-8.") from None

    def _end(self) -> None:
        self._ended = True


def _bad(how: str) -> Refused:
    return Refused(400, "bad_form", f"The multipart body {how}.", remedy="Send multipart/form-data as RFC 7578 has it.")
