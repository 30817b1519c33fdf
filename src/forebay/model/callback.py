"""Where a job's callbacks go, and what a ledger keeps of each place they go to."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from forebay import ids
from forebay.errors import BadInput
from forebay.model.names import CALLBACK, check_count, check_duration, check_label, check_name

KIND = CALLBACK
MAX_URL = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Callback:
    """Kept with its job. `host` names the lane, `each` asks for chunks as well, `base` is what links begin with.

    With `results` each callback carries the result that it tells of.
    """

    url: str
    endpoint: str
    host: str
    each: bool = False
    base: str = ""
    timeout_s: float = 60.0
    max_retries: int = 9
    results: bool = False

    def __post_init__(self) -> None:
        check_url(self.url)
        ids.check_id(self.endpoint)
        check_name("host", self.host)
        check_duration("timeout_s", self.timeout_s)
        check_count("max_retries", self.max_retries)

    def to_json(self) -> str:
        fields = asdict(self)
        if not self.results:
            del fields["results"]  # a worker of an earlier version does not know it
        return json.dumps(fields)

    @property
    def terms(self) -> list[object]:
        """Return what makes a job with this callback another job than one with another callback."""
        return [self.url, self.each, *(["results"] if self.results else [])]

    @classmethod
    def of_json(cls, text: str) -> Callback:
        return cls(**json.loads(text))


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A URL that callbacks of one tenant go to.

    Its secret follows from `generation`; the one before signs for a while after `rotated_at`. One that was disabled is
    sent nothing more. `version` rises with each change, by one.
    """

    id: str
    tenant: str
    url: str
    created_at: float
    generation: int = 1
    rotated_at: float | None = None
    disabled_at: float | None = None
    note: str = ""
    version: int = 1

    def __post_init__(self) -> None:
        ids.check_id(self.id)
        check_name("tenant", self.tenant)
        check_url(self.url)
        check_count("generation", self.generation, least=1)
        check_count("version", self.version, least=1)
        if self.note:
            check_label("note", self.note)


def check_url(url: object) -> str:
    if not isinstance(url, str) or not url.isprintable() or not 1 <= len(url) <= MAX_URL:
        raise BadInput(f"{ids.shown(url)} is not a URL.", remedy=f"Give one of up to {MAX_URL} characters.")
    return url
