from __future__ import annotations

import gc

from forebay.cli.interpreter import collect_rarely


def test_a_program_that_never_collects_continues_so() -> None:
    usual = gc.get_threshold()
    gc.set_threshold(0)
    try:
        collect_rarely()
        assert gc.get_threshold()[0] == 0
    finally:
        gc.unfreeze()
        gc.set_threshold(*usual)
