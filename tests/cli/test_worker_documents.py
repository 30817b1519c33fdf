"""A worker without a target reads documents that others submit."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from forebay import Forebay
from forebay.model.task import Status
from tests.pipelines.ground import pdf


@pytest.mark.slow
def test_a_worker_without_a_target_reads_documents(tmp_path: Path) -> None:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FOREBAY_")}
    worker = subprocess.Popen(
        [sys.executable, "-m", "forebay", "worker"],
        env=kept | {"FOREBAY_HOME": str(tmp_path)},
        stderr=subprocess.DEVNULL,
    )
    try:
        with Forebay(f"sqlite:///{tmp_path}/forebay.db", blobs=f"file://{tmp_path}/blobs") as app:
            job = app.process(io.BytesIO(pdf(3)), name="scan.pdf")
            assert app.wait(job.id, timeout_s=30).status is Status.COMPLETED
    finally:
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(60) == 0
