"""Variables that other segmenters of documents are set by: they are read, too, below those of Forebay's own names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

NAMES: Mapping[str, tuple[str, ...]] = {
    "JOB_TIMEOUT_SECONDS": ("segment_timeout_s",),
    "MAX_FILE_SIZE_LIMIT": ("document_max_bytes", "upload_max_bytes"),
    "USE_GOOGLE_LANGUAGE_DETECTION": ("language_google",),
    "LANGUAGE_DETECT_GOOGLE_TIMEOUT_SECONDS": ("language_google_timeout_s",),
    "LANGUAGE_DETECT_LLM_TIMEOUT_SECONDS": ("language_llm_timeout_s",),
    "LLM_BACKEND": ("llm_backend",),
    "SYSTEM_DEFAULT_LANGUAGE": ("language_default",),
}
# How many bytes to look at says nothing here: the directory of a zip stands at its end.
_USELESS = "MIMETYPE_MAGIC_LOOKAHEAD"
# Of limiters that keep their counters in DynamoDB and their numbers in SSM, which this version cannot read.
AWS = ("RATE_LIMIT_TABLE", "ADOBE_API_MAX_IN_FLIGHT_PARAM", "ADOBE_API_RPM_PARAM")
_SWITCH = {"true": "on", "1": "on", "yes": "on", "on": "on", "false": "off", "0": "off", "no": "off", "off": "off"}
_BACKENDS = frozenset({"openai", "azure"})


def given(environ: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Each variable that is set, with a setting of its and the value."""
    for variable, name in ((variable, name) for variable, names in NAMES.items() for name in names):
        value = environ.get(variable, "").strip()
        if value and not _meant_for_others(variable, value):
            yield variable, name, _SWITCH.get(value.lower(), value) if name == "language_google" else value


def unused(environ: Mapping[str, str]) -> Iterator[str]:
    """Those that change nothing here, to be told of."""
    for variable in (_USELESS, *AWS):
        if environ.get(variable):
            yield variable
    for variable in NAMES:
        value = environ.get(variable, "").strip()
        if value and _meant_for_others(variable, value):
            yield variable


def _meant_for_others(variable: str, value: str) -> bool:
    """Many programs have a variable of that name."""
    return variable == "LLM_BACKEND" and value not in _BACKENDS
