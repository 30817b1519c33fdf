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
    """For Forebay's processors, all that they need; and for clients that read the usual names."""
    return {
        "FOREBAY_DOCAI_URL": base,
        "FOREBAY_DOCAI_PROJECT": "simulated",
        "FOREBAY_DOCAI_PROCESSOR": "simulated",
        "FOREBAY_DOCAI_TOKEN": "simulated",
        "FOREBAY_ADOBE_URL": base,
        "FOREBAY_ADOBE_CLIENT_ID": "simulated",
        "FOREBAY_ADOBE_CLIENT_SECRET": "simulated",
        "FOREBAY_LLM_URL": f"{base}/v1",
        "FOREBAY_LLM_MODEL": "simulated",
        "FOREBAY_LLM_API_KEY": "simulated",
        "OPENAI_BASE_URL": f"{base}/v1",
        "AZURE_OPENAI_ENDPOINT": base,
    }
