"""`forebay.testing` gives the simulator to programs that have no pytest."""

from __future__ import annotations

import subprocess
import sys

WITHOUT = "import sys; sys.modules['pytest'] = None; "


def test_the_simulator_needs_no_pytest() -> None:
    code = f"{WITHOUT}from forebay.testing import simulator; print(simulator.__name__)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.stdout.strip() == "simulator", run.stderr
