"""The commands of the page about tagging do what it says, with the simulator in Adobe's place."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from forebay.testing import simulator
from tests.autotag.ground import checked
from tests.docs.test_document_commands import Shell
from tests.pipelines.ground import pdf

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "tag-pdfs.md"
BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.slow
def test_the_commands_about_tagging_run(tmp_path: Path) -> None:
    (tmp_path / "scan.pdf").write_bytes(pdf(3))
    client = {"client_credentials": {"client_id": "client", "client_secret": "canary"}}
    (tmp_path / "pdfservices-api-credentials.json").write_text(json.dumps(client))
    uses, sets = (text.splitlines() for text in BLOCK.findall(PAGE.read_text(encoding="utf-8")))
    shell = Shell(tmp_path)
    with simulator() as sim:
        shell.environment["FOREBAY_ADOBE_URL"] = sim.base
        for line in sets:
            if line.startswith("export "):
                name, _, value = line.removeprefix("export ").partition("=")
                shell.environment[name] = value
            else:
                shell.run(line)
        estimated, _ = (shell.run(line) for line in uses)
        assert "takes:    30 transactions" in estimated
        assert sim.verdict()["routes"]["adobe.job"]["units"]["transactions"] == 30
    assert checked((tmp_path / "scan.tagged.pdf").read_bytes())["mark_count"] == 3
