"""Where each API is, and the environment variables that point clients at it."""

from __future__ import annotations


def addresses(base: str) -> dict[str, str]:
    return {
        "docai": base,
        "adobe": base,
        "openai": f"{base}/v1",
        "azure": base,
        "translate": base,
        "control": f"{base}/simulate",
    }


def environment(base: str) -> dict[str, str]:
    """Addresses only: a variable that sets up a processor would ask for its limit wherever it is exported."""
    return {
        "FOREBAY_DOCAI_URL": base,
        "FOREBAY_ADOBE_URL": base,
        "FOREBAY_LLM_URL": f"{base}/v1",
        "OPENAI_BASE_URL": f"{base}/v1",
        "AZURE_OPENAI_ENDPOINT": base,
    }
