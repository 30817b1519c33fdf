"""Your own processor counts words through a fake paid API: limited, retried after a 429, and never paid twice."""

from __future__ import annotations

import asyncio
import io
import os
import tempfile

import pikepdf
import pypdfium2

from forebay import Chunk, Context, Forebay, Limit, Page, Retry

app = Forebay()
app.limit(Limit("paid_api", in_flight=2))


class FakeApi:
    """Bills by the page, answers its first call when the second has come, and its third with 429."""

    def __init__(self) -> None:
        self.pages = 0
        self.calls = 0
        self.at_once = 0
        self.most_at_once = 0
        self.second_came = asyncio.Event()

    async def read(self, pdf: bytes) -> list[str] | None:
        self.calls += 1
        number = self.calls
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        if number == 2:
            self.second_came.set()
        await self.second_came.wait()
        await asyncio.sleep(0.05)
        self.at_once -= 1
        if number == 3:
            return None
        texts = [page.get_textpage().get_text_range() for page in pypdfium2.PdfDocument(pdf)]
        self.pages += len(texts)
        return texts


api = FakeApi()


@app.processor("count_words", limit="paid_api", max_pages=2)
async def count_words(_: Context, chunk: Chunk) -> list[Page]:
    texts = await api.read(chunk.read())
    if texts is None:
        raise Retry("429", error_class="rate_limited", delay_s=0.2)  # everybody pauses, and no retry is burnt
    return [Page.of_text(f"{len(text.split())} words", processor="count_words", version="1") for text in texts]


def document(page_count: int) -> bytes:
    made = pikepdf.new()
    font = pikepdf.Dictionary(Type=pikepdf.Name.Font, Subtype=pikepdf.Name.Type1, BaseFont=pikepdf.Name.Helvetica)
    for number in range(1, page_count + 1):
        page = made.add_blank_page()
        page.Resources = pikepdf.Dictionary(Font=pikepdf.Dictionary(F1=font))
        page.Contents = made.make_stream(f"BT /F1 12 Tf 72 700 Td ({'word ' * number}) Tj ET".encode())
    raw = io.BytesIO()
    made.save(raw, static_id=True)
    return raw.getvalue()


def main() -> None:
    scan = document(9)
    job = app.process(io.BytesIO(scan), processor="count_words", name="scan.pdf")
    app.work(until_idle=True)
    result = app.result(job.id)
    print(f"result: {len(result)} bytes of JSON" if isinstance(result, bytes) else result)
    print(f"{api.pages} pages paid in {api.calls} calls, never more than {api.most_at_once} at once")
    again = app.process(io.BytesIO(scan), processor="count_words", name="same-bytes.pdf", allow_holes=True)
    app.work(until_idle=True)
    print(f"the same bytes in another job: {app.get(again.id).status}, {api.pages} pages paid")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("FOREBAY_HOME", folder)
        with app:
            main()
