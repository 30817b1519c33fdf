"""An application with garbage, which notes at the end of its process how the interpreter was set up."""

from __future__ import annotations

import atexit
import gc
import json
import os
import sys
import weakref
from pathlib import Path

from forebay import Context, Forebay


class Garbage:
    def __init__(self) -> None:
        self.itself = self


gc.disable()  # so that only a look that is asked for finds the garbage
app = Forebay()
garbage = weakref.ref(Garbage())


@app.task("add")
async def add(ctx: Context, a: int, b: int) -> int:
    return a + b


@atexit.register
def note() -> None:
    noted = {
        "threshold": gc.get_threshold()[0],
        "switch_s": sys.getswitchinterval(),
        "frozen": gc.get_freeze_count() > 0,
        "garbage": garbage() is not None,
    }
    Path(os.environ["FOREBAY_HOME"], f"interpreter-{os.getpid()}.json").write_text(json.dumps(noted))
