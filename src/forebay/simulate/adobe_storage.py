"""The storage behind Adobe's gateway: assets, reached by signed addresses that need no token and bear none."""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from secrets import token_bytes, token_hex
from urllib.parse import quote
from xml.sax.saxutils import escape

from forebay.simulate.messages import Refused, Reply, Request, Work
from forebay.simulate.state import State

_MOST_BYTES = 1024**3
PDF = "application/pdf"
SHEET = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"


@dataclass
class Asset:
    id: str
    media_type: str
    until: float
    data: bytes | None = None

    @property
    def fingerprint(self) -> str:
        return sha256(self.data or b"").hexdigest()


class Storage:
    """Assets are gone when their time is over."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._key = token_bytes(32)
        self._assets: dict[str, Asset] = {}
        self._size = 0

    def create(self, media_type: str, data: bytes | None = None) -> Asset:
        asset = Asset(f"urn:aaid:AS:UE1:{token_hex(16)}", media_type, self._until())
        self._assets[asset.id] = asset
        if data is not None:
            self._fill(asset, data)
        return asset

    def get(self, identifier: str) -> Asset | None:
        asset = self._assets.get(identifier)
        if asset is not None and asset.until <= self._state.clock.now():
            self.delete(asset)
            return None
        return asset

    def delete(self, asset: Asset) -> None:
        if self._assets.pop(asset.id, None) is not None:
            self._size -= len(asset.data or b"")

    def address(self, asset: Asset, method: str, base: str) -> str:
        until = f"{min(self._until(), asset.until):.3f}"
        signature = self._signature(method, asset.id, until)
        return f"{base}/adobe-storage/{quote(asset.id)}?X-Amz-Expires={until}&X-Amz-Signature={signature}"

    def upload(self, request: Request) -> Work:
        asset = self._opened(request)
        if request.headers.get("content-type", "") != asset.media_type:
            raise Refused(
                refused_by_storage(403, "SignatureDoesNotMatch", "The request signature does not match: Content-Type.")
            )
        return Work(partial(self._store, asset, request.body), fingerprint=sha256(request.body).hexdigest())

    def download(self, request: Request) -> Work:
        asset = self._opened(request)
        if asset.data is None:
            raise Refused(refused_by_storage(404, "NoSuchKey", "The specified key does not exist."))
        return Work(partial(self._load, asset), fingerprint=asset.fingerprint)

    async def _store(self, asset: Asset, data: bytes) -> Reply:
        self._fill(asset, data)
        return Reply(200, b"", {"etag": f'"{asset.fingerprint[:32]}"'})

    async def _load(self, asset: Asset) -> Reply:
        return Reply(200, asset.data or b"", {"content-type": asset.media_type})

    def _opened(self, request: Request) -> Asset:
        identifier = request.groups["asset"]
        until, given = request.query.get("X-Amz-Expires", ""), request.query.get("X-Amz-Signature", "")
        if "authorization" in request.headers:
            # A credential that came this far was shown to a host that it is not for.
            message = "Only one auth mechanism allowed; a signed address takes no Authorization header"
            raise Refused(refused_by_storage(400, "InvalidArgument", message))
        if not hmac.compare_digest(given, self._signature(request.method, identifier, until)):
            raise Refused(refused_by_storage(403, "SignatureDoesNotMatch", "The request signature does not match."))
        asset = self.get(identifier)
        if asset is None or float(until) <= self._state.clock.now():
            raise Refused(refused_by_storage(403, "AccessDenied", "Request has expired"))
        return asset

    def _fill(self, asset: Asset, data: bytes) -> None:
        """The oldest go before their time, so that a long run does not fill the memory."""
        self._size += len(data) - len(asset.data or b"")
        asset.data = data
        while self._size > _MOST_BYTES:
            self.delete(next(iter(self._assets.values())))

    def _until(self) -> float:
        return self._state.clock.now() + self._state.settings.adobe.asset_ttl_s

    def _signature(self, method: str, identifier: str, until: str) -> str:
        return hmac.new(self._key, f"{method} {identifier} {until}".encode(), "sha256").hexdigest()


def refused_by_storage(status: int, code: str, message: str) -> Reply:
    body = (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>{code}</Code><Message>{escape(message)}</Message>'
        "<RequestId>SIMULATED</RequestId><HostId>simulated</HostId></Error>"
    )
    return Reply(status, body.encode(), {"content-type": "application/xml"})
