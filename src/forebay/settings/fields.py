"""Names every setting with its default, its bounds and what it is for."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PrivateAttr, ValidationInfo, field_validator

from forebay.observe import emit
from forebay.observe.redact import STARS, mask_address

PREFIX = "FOREBAY_"
ADDRESSES = ("ledger", "limits", "blobs", "proxy")
SECRETS = ("docai_token", "docai_api_key", "llm_api_key", "adobe_client_secret", "translate_api_key", "callback_key")
FILES = ("docai_credentials", "llm_api_key_file", "adobe_credentials", "translate_credentials")
_reported: set[str] = set()
_CENTURY_S = 100 * 366 * 86_400


def _matches(pattern: str, advice: str) -> AfterValidator:
    wanted = re.compile(pattern)

    def check(value: str) -> str:
        if not wanted.fullmatch(value) or value in {".", ".."}:
            raise ValueError(advice)
        return value

    return AfterValidator(check)


Name = Annotated[str, _matches(r"[a-z0-9_.-]{1,64}", "Use 1 to 64 characters of a-z, 0-9, '_', '.' and '-'.")]
Address = Annotated[
    str, _matches(r"[a-z][a-z0-9+.-]*:[!-~]*", "Give an address such as scheme://place, quoted as URLs are.")
]
Language = Annotated[str, _matches(r"[a-z]{2,3}(-[A-Za-z0-9]{2,8})*", "Give a language as in en or pt-BR.")]
Host = Annotated[str, _matches(r"[A-Za-z0-9_.:-]{1,253}", "Give a host name or an IP address.")]


@dataclass(frozen=True)
class Source:
    """Where one setting comes from, with secrets masked."""

    name: str
    value_shown: str
    default_shown: str
    source: str
    description: str


class Settings(BaseModel):
    """Made by `load`."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    env: Name = Field("dev", description="Name of the environment; a ledger serves one, shared stores keep them apart.")
    home: Path = Field(description="Folder for what Forebay keeps on this machine.")
    ledger: Address = Field(description="Address of the ledger, where tasks live.")
    limits: Address = Field(description="Address of the limit store, where the state of limits lives.")
    blobs: Address = Field(description="Address of the blob store, where bytes live.")
    concurrency: int = Field(10, ge=1, le=1000, description="Tasks that a worker runs at once.")
    processes: int = Field(ge=1, le=1024, description="Processes of a worker for blocking handlers.")
    lease_s: float = Field(15, ge=1, le=3600, description="Seconds after which a silent worker's tasks go to others.")
    poll_s: float = Field(5, ge=0.05, le=300, description="Seconds after which an idle worker asks again, unwoken.")
    drain_grace_s: float = Field(30, ge=0, le=86_400, description="Seconds that running tasks get when a worker stops.")
    claims_per_exchange: int = Field(250, ge=1, le=1000, description="Tasks claimed at most in one exchange.")
    handler_memory_mb: int | None = Field(
        None, ge=16, le=1_048_576, description="Memory in MiB that a blocking handler's process may use."
    )
    handler_cpu_s: float | None = Field(
        None, ge=1, le=604_800, description="Seconds of CPU that a blocking handler's process may use."
    )
    parser_memory_mb: int = Field(
        1024, ge=128, le=1_048_576, description="Memory in MiB that a process which reads documents may use."
    )
    parser_cpu_s: float = Field(
        20, ge=1, le=86_400, description="Seconds of CPU that a process which reads documents may use for one task."
    )
    payload_max_bytes: int = Field(
        1_048_576, ge=1024, le=1_048_576, description="Bytes above which a payload or result goes to the blob store."
    )
    document_max_bytes: int = Field(
        2_147_483_648, ge=1024, le=1_000_000_000_000, description="Bytes that a document may have."
    )
    upload_max_bytes: int = Field(
        67_108_864, ge=1024, le=1_000_000_000_000, description="Bytes that a document may have that comes by HTTP."
    )
    document_max_pages: int = Field(20_000, ge=1, le=1_000_000, description="Pages that a document may have.")
    chunk_timeout_s: float | None = Field(
        None,
        ge=0.1,
        le=_CENTURY_S,
        description="Seconds that an attempt at a chunk may take; none leaves it to its processor.",
    )
    chunk_max_retries: int | None = Field(
        None, ge=0, le=1_000_000, description="Retries of a chunk after failures; none leaves it to its processor."
    )
    chunk_max_reschedules: int | None = Field(
        None,
        ge=0,
        le=1_000_000,
        description="Reschedules of a chunk; none leaves it to its processor.",
    )
    budgets: str | None = Field(
        None, max_length=4096, description="What processors may use, such as pages=1000/day,docai:calls=500/month."
    )
    retention_completed_s: float | None = Field(
        None, ge=0, le=_CENTURY_S, description="Seconds that completed tasks are kept; none keeps them."
    )
    retention_failed_s: float | None = Field(
        None, ge=0, le=_CENTURY_S, description="Seconds that failed tasks are kept; none keeps them."
    )
    retention_canceled_s: float | None = Field(
        None, ge=0, le=_CENTURY_S, description="Seconds that canceled tasks are kept; none keeps them."
    )
    retention_remembered_s: float | None = Field(
        None, ge=0, le=_CENTURY_S, description="Seconds that results are remembered for reuse; none keeps them."
    )
    gc_every_s: float | None = Field(
        None,
        ge=60,
        le=_CENTURY_S,
        description="Seconds after which workers do what store gc does, again and again; none: they do not."
        " Only where no other ledger uses the same blobs.",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="Least level that is logged.")
    log_format: Literal["auto", "console", "json"] = Field(
        "auto", description="Form of the log; auto is console on a terminal and JSON lines elsewhere."
    )
    metrics_port: int | None = Field(
        None, ge=0, le=65_535, description="Port of a worker's /metrics; 0 takes a free one, none serves no metrics."
    )
    server_host: Host = Field("127.0.0.1", description="Host that `forebay serve` listens on.")
    server_port: int = Field(8420, ge=0, le=65_535, description="Port of `forebay serve`; 0 takes a free one.")
    tenant_max_jobs: int | None = Field(
        None, ge=1, le=1_000_000_000, description="Open jobs that a tenant may have by HTTP; none bounds nothing."
    )
    tenant_max_tasks: int | None = Field(
        None, ge=1, le=1_000_000_000, description="Open tasks, chunks too, that a tenant may have by HTTP to send more."
    )
    tenant_max_daily_bytes: int | None = Field(
        None,
        ge=1024,
        le=1_000_000_000_000_000,
        description="Bytes of documents that a tenant may send a server in a day.",
    )
    key_max_requests_per_min: int | None = Field(
        None, ge=1, le=1_000_000, description="Requests that an API key may send a server in a minute."
    )
    metrics_host: Host = Field("127.0.0.1", description="Host that a worker's /metrics listens on.")
    proxy: Address | None = Field(
        None, description="Proxy for calls to providers; that of the environment is not used."
    )
    docai_project: str | None = Field(None, max_length=128, description="Google Cloud project of Document AI.")
    docai_location: Name = Field("us", description="Location of the Document AI processor, such as us or eu.")
    docai_processor: str | None = Field(None, max_length=128, description="Id of the Document AI processor.")
    docai_version: str | None = Field(
        None, max_length=128, description="Version of that processor; none is its default version."
    )
    docai_url: Address | None = Field(None, description="Address of Document AI; none is Google's for the location.")
    docai_credentials: Path | None = Field(
        None, description="File with the key of a service account, or with a token; none is the machine's identity."
    )
    docai_token: str | None = Field(None, max_length=16_384, description="Access token, in place of credentials.")
    docai_api_key: str | None = Field(None, max_length=1024, description="API key, in place of credentials.")
    llm_backend: Literal["openai", "azure"] = Field(
        "openai", description="What speaks at llm_url: OpenAI or a server that is compatible, or Azure OpenAI."
    )
    llm_url: Address | None = Field(None, description="Address of the language model; none is OpenAI's own.")
    llm_model: str | None = Field(None, max_length=128, description="Model, or deployment with Azure.")
    llm_api_version: str = Field("2024-10-21", max_length=64, description="Version of Azure's API.")
    llm_api_key: str | None = Field(None, max_length=1024, description="Key of the language model.")
    llm_api_key_file: Path | None = Field(None, description="File with that key, read again when it is refused.")
    adobe_client_id: str | None = Field(None, max_length=256, description="Id of the client of Adobe PDF Services.")
    adobe_client_secret: str | None = Field(None, max_length=1024, description="Secret of that client.")
    adobe_credentials: Path | None = Field(
        None, description="File with id and secret as Adobe hands it out, in place of both; read for each token."
    )
    adobe_url: Address | None = Field(None, description="Address of Adobe PDF Services; none is Adobe's own.")
    segment_timeout_s: float = Field(
        600,
        ge=0.1,
        le=604_800,
        description="Seconds that a job of the pipeline segment may run; waiting is not counted.",
    )
    language_google: Literal["on", "off"] = Field(
        "off", description="Whether Google Translate is asked first for the language of an article."
    )
    language_google_timeout_s: float = Field(10, ge=0.1, le=60, description="Seconds that Google Translate may take.")
    language_llm_timeout_s: float = Field(
        30, ge=0.1, le=600, description="Seconds that the language model may take for the language of an article."
    )
    language_default: Language = Field("en", description="Language of an article that nobody can tell.")
    translate_url: Address | None = Field(None, description="Address of Google Translate; none is Google's own.")
    translate_api_key: str | None = Field(None, max_length=1024, description="API key of Google Translate.")
    translate_credentials: Path | None = Field(
        None, description="File with the key of a service account for it, or with a token, in place of the API key."
    )
    public_url: Address | None = Field(
        None, description="Address that others reach the service by; links begin with it."
    )
    callback_timeout_s: float = Field(30, ge=1, le=300, description="Seconds that a receiver of callbacks may take.")
    callback_result_max_bytes: int = Field(
        262_144, ge=1024, le=16_777_216, description="Bytes of a result that a callback may carry."
    )
    callback_hosts: str | None = Field(
        None,
        max_length=4096,
        description="Hosts in private networks that callbacks may go to, such as hooks.lan,10.1.2.3.",
    )
    callback_loopback: Literal["refuse", "allow"] = Field(
        "refuse", description="Whether callbacks may go to this machine itself."
    )
    callback_key: str | None = Field(
        None,
        min_length=16,
        max_length=1024,
        description="Key that the secrets of callbacks follow from; none is a file beside the ledger.",
    )
    alert_url: Address | None = Field(None, description="Where alerts are sent, as callbacks are; none sends none.")

    _origins: dict[str, str] = PrivateAttr(default_factory=dict)
    _defaults: dict[str, object] = PrivateAttr(default_factory=dict)
    _strangers: list[str] = PrivateAttr(default_factory=list)

    @field_validator("*", mode="before")
    @classmethod
    def _plain(cls, value: object, info: ValidationInfo) -> object:
        if isinstance(value, bool):
            raise ValueError("It is not a switch.")  # noqa: TRY004 - pydantic takes ValueError only
        optional = cls.model_fields[info.field_name or ""].default is None
        return None if optional and isinstance(value, str) and value.lower() == "none" else value

    def origin(self, name: str) -> str:
        """Where a setting's value comes from: "default" if nobody gave one."""
        return self._origins.get(name, "default")

    def sources(self) -> list[Source]:
        return [
            Source(
                name,
                _shown(name, getattr(self, name)),
                _shown(name, self._defaults.get(name, field.default)),
                self.origin(name),
                field.description or "",
            )
            for name, field in type(self).model_fields.items()
        ]

    def as_environment(self) -> dict[str, str]:
        """Variables with which another process loads the same settings."""
        return {f"{PREFIX}{name.upper()}": "none" if value is None else str(value) for name, value in self}

    def report_ignored(self) -> None:
        """Warn of variables of other programs that change nothing here, once a process for each."""
        for name in self._strangers:
            if not name.startswith(PREFIX) and name not in _reported:
                _reported.add(name)
                emit("variable_ignored", variable=name)

    def unknown_variables(self) -> list[str]:
        """Names in the environment that look like settings and are none."""
        return list(self._strangers)

    def __repr_args__(self) -> list[tuple[str | None, Any]]:
        masked = (*ADDRESSES, *SECRETS)
        return [(name, _shown(name, value) if name in masked and value is not None else value) for name, value in self]


def _shown(name: str, value: object) -> str:
    if value is None:
        return "none"
    if name in SECRETS:
        return STARS
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else str(value)
    return mask_address(str(value)) if name in ADDRESSES else str(value)
