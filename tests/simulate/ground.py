"""Bare clients of each API, which know no more than HTTP, and documents to send."""

from __future__ import annotations

import asyncio
import base64
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import httpx2
import pikepdf

from tests.documents import written

DOCUMENT = (Path(__file__).parents[2] / "examples" / "documents" / "text.pdf").read_bytes()
PDF = "application/pdf"
PROCESS = "/v1/projects/p/locations/us/processors/abc:process"
CHAT = "/v1/chat/completions"
SAID = {"role": "user", "content": "The old river waits. The river and the basin are old friends."}
BEARER = {"authorization": "Bearer token"}


def document(*pages: str) -> bytes:
    """A page for each text, one text object for each of its lines."""
    pdf = pikepdf.new()
    name = pikepdf.Name
    font = pdf.make_indirect(
        pikepdf.Dictionary(
            Type=name.Font,
            Subtype=name.Type1,
            BaseFont=name.Helvetica,
            Encoding=name.WinAnsiEncoding,
            ToUnicode=_map(pdf),
        )
    )
    for text in pages:
        page = pdf.add_blank_page(page_size=(595, 842))
        page.Resources = pikepdf.Dictionary(Font=pikepdf.Dictionary(F1=font))
        lines = [f"BT /F1 12 Tf 72 {760 - 15 * n} Td ({line}) Tj ET" for n, line in enumerate(text.splitlines())]
        page.Contents = pdf.make_stream("\n".join(lines).encode("latin-1"))
    out = io.BytesIO()
    pdf.save(out)
    return out.getvalue()


def _map(pdf: pikepdf.Pdf) -> pikepdf.Object:
    """A dollar sign reads as a smiling face, which UTF-16 needs two units for; whatever else is what it is."""
    return pdf.make_indirect(
        pdf.make_stream(
            b"/CIDInit /ProcSet findresource begin begincmap 1 begincodespacerange <00> <FF> endcodespacerange "
            b"1 beginbfchar <24> <D83DDE00> endbfchar endcmap end"
        )
    )


def broken() -> bytes:
    return written.pdf({1: b"<< /Type /Nothing >>"})


def process(data: bytes = DOCUMENT, *, kind: str = PDF, **fields: object) -> dict[str, Any]:
    return {"rawDocument": {"content": base64.b64encode(data).decode(), "mimeType": kind}, **fields}


def chat(content: str = SAID["content"], **fields: object) -> dict[str, Any]:
    return {"model": "gpt-4o-mini", "messages": [{"role": "user", "content": content}], **fields}


class Clients:
    def __init__(self, base: str) -> None:
        self.http = httpx2.Client(base_url=base, timeout=20, trust_env=False)
        self._base = base
        self._adobe: dict[str, str] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()

    def docai(self, body: Mapping[str, Any] | None = None, *, fault: str = "", path: str = PROCESS) -> httpx2.Response:
        return self.http.post(path, json=body or process(), headers=BEARER | _fault(fault))

    def chat(self, body: Mapping[str, Any] | None = None, *, fault: str = "") -> httpx2.Response:
        return self.http.post(CHAT, json=body or chat(), headers=BEARER | _fault(fault))

    def azure(self, body: Mapping[str, Any] | None = None, *, fault: str = "") -> httpx2.Response:
        path = "/openai/deployments/mine/chat/completions?api-version=2024-10-21"
        return self.http.post(path, json=body or chat(), headers={"api-key": "key"} | _fault(fault))

    def adobe(self, method: str, path: str, *, fault: str = "", **options: Any) -> httpx2.Response:  # noqa: ANN401 - what a request takes
        if not self._adobe:
            token = self.http.post("/token", data={"client_id": "id", "client_secret": "secret"}).json()["access_token"]
            self._adobe = {"authorization": f"Bearer {token}", "x-api-key": "id"}
        return self.http.request(method, path, headers=self._adobe | _fault(fault), **options)

    def uploaded(self, data: bytes = DOCUMENT) -> str:
        asset = self.adobe("POST", "/assets", json={"mediaType": PDF}).json()
        assert self.http.put(asset["uploadUri"], content=data, headers={"content-type": PDF}).status_code == 200
        identifier: str = asset["assetID"]
        return identifier

    def autotag(self, data: bytes = DOCUMENT, *, fault: str = "", **fields: object) -> httpx2.Response:
        body = {"assetID": self.uploaded(data), **fields}
        return self.adobe("POST", "/operation/autotag", json=body, fault=fault)

    def ended(self, location: str) -> dict[str, Any]:
        while True:
            found: dict[str, Any] = self.adobe("GET", location).json()
            if found["status"] != "in progress":
                return found

    def at_once(self, bodies: Sequence[Mapping[str, Any]], *, path: str = CHAT) -> list[int]:
        """All of them side by side; their status codes."""

        async def all_of_them() -> list[int]:
            async with httpx2.AsyncClient(base_url=self._base, timeout=20, trust_env=False) as client:
                found = await asyncio.gather(*(client.post(path, json=body, headers=BEARER) for body in bodies))
                return [each.status_code for each in found]

        return asyncio.run(all_of_them())


def _fault(fault: str) -> dict[str, str]:
    return {"x-simulate": fault} if fault else {}
