"""The limiter across forks and many processes."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run(script: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


def test_a_forked_child_takes_slots_of_its_own_and_gives_none_of_its_parents_back(tmp_path: Path) -> None:
    script = """
        import os, sys
        from forebay.limits import Busy, Limit, Limiter
        limiter = Limiter(sys.argv[1])
        limiter.define(Limit("two", in_flight=2))
        slot = limiter.slot("two").__enter__()
        pid = os.fork()
        if pid == 0:
            slot.release()
            with limiter.slot("two"):
                held = limiter.usage("two").in_flight
                try:
                    with limiter.slot("two", timeout_s=0):
                        held = -1
                except Busy:
                    pass
            limiter.close()
            os._exit(held)
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), slot.held, limiter.usage("two").in_flight)
        slot.release()
        limiter.close()
        print(Limiter(sys.argv[1]).usage("two").in_flight)
    """
    assert run(script, f"sqlite:////{tmp_path}/limits.db").split() == ["2", "True", "1", "0"]


def test_loading_the_limiter_is_quick_and_loads_nothing_heavy() -> None:
    script = """
        import resource, sys
        import forebay.limits
        before = resource.getrusage(resource.RUSAGE_SELF)
        from forebay.limits import Limit, Limiter, Window
        Limiter("memory://")
        heavy = {"fastapi", "pydantic", "boto3", "psycopg", "redis", "rich", "cyclopts", "apsw", "obstore", "httpx2"}
        print(sorted(heavy & set(sys.modules)))
    """
    assert run(script) == "[]"


@pytest.mark.parametrize("address", ["dynamodb://table?region=eu-west-1", "ssm://x"])
def test_addresses_that_are_not_there_yet_are_refused_clearly(address: str) -> None:
    script = """
        import sys
        from forebay.errors import BadInput
        from forebay.limits import Limiter
        try:
            Limiter(sys.argv[1])
        except BadInput as error:
            print(error)
    """
    assert "not available in this version" in run(script, address)


def test_a_program_that_ends_gives_its_slots_back(tmp_path: Path) -> None:
    script = """
        import sys
        from forebay.limits import Limit, Limiter
        limiter = Limiter(sys.argv[1])
        limiter.define(Limit("one", in_flight=1))
        with limiter.slot("one"):
            pass
    """
    address = f"sqlite:////{tmp_path}/limits.db"
    run(script, address)
    last = """
        import sys
        from forebay.limits import Limiter
        print(Limiter(sys.argv[1]).usage("one").in_flight)
    """
    assert run(last, address) == "0"


def test_a_process_of_multiprocessing_gives_its_last_slot_back(tmp_path: Path) -> None:
    script = """
        import multiprocessing, sys
        from forebay.limits import Limit, Limiter
        limiter = Limiter(sys.argv[1])
        def work():
            with limiter.slot("one"):
                pass
        if __name__ == "__main__":
            limiter.define(Limit("one", in_flight=1))
            for _ in range(3):
                child = multiprocessing.get_context("fork").Process(target=work)
                child.start()
                child.join()
                print(child.exitcode, limiter.usage("one").in_flight)
    """
    assert run(script, f"sqlite:////{tmp_path}/limits.db").split() == ["0"] * 6
