"""The error by which a verb refuses a document or a page."""

from __future__ import annotations

from forebay.rules.verdict import ErrorClass


class Refused(Exception):
    """The same bytes would be refused again; the text names the pages, counted from 1 in the file that was given."""

    def __init__(self, error_class: ErrorClass, text: str) -> None:
        super().__init__(text)
        self.error_class = error_class
        self.text = text
