"""The workers' application: chunks are small, so that calls are what takes time, and not this machine."""

from benchmarks.pipeline.shapes import LIMIT, MAX_PAGES
from forebay import Forebay

app = Forebay()
app.documents.pipeline.processor(LIMIT).max_pages = MAX_PAGES
