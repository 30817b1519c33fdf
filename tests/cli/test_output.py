from __future__ import annotations

import pytest

from forebay.cli import output
from forebay.cli.cells import beside, cut, short_ids, span
from tests.cli.ground import program


def test_times_are_told_beside_now() -> None:
    assert beside(142.0, 100.0) == "in 42 s"
    assert beside(100.0, 280.0) == "3 min ago"
    assert beside(None, 0.0) == ""
    assert [span(each) for each in (0.25, 59, 3600, 200_000)] == ["250 ms", "59 s", "1 h", "2 d"]


def test_ids_are_cut_to_eight_characters_or_as_many_as_tell_them_apart() -> None:
    made = short_ids(["abcdefgh" + "x" * 18, "abcdefgh" + "xy" + "x" * 16, "b" * 26])
    assert list(made.values()) == ["abcdefghxx", "abcdefghxy", "bbbbbbbb"]


def test_a_cell_stays_on_one_line() -> None:
    assert cut("a\nb") == "a\\nb"
    assert cut("x" * 100) == "x" * 59 + "…"


def test_a_terminal_gets_a_table_without_markup_in_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "terminal", lambda: True)
    output.table(("id", "error"), [("abc", "[red]x[/red] \x1b[1m")])
    assert "[red]x[/red] \\x1b[1m" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_every_command(shell: str) -> None:
    run = program("completion", shell)
    assert run.returncode == 0
    for word in ("submit", "requeue", "idempotency-key"):
        assert word in run.stdout


def test_completion_of_another_shell_exits_2() -> None:
    assert program("completion", "tcsh").returncode == 2
