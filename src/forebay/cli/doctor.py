"""The command that checks this installation: doctor."""

from __future__ import annotations

from forebay.cli import output
from forebay.cli.options import Reading

_USUAL = Reading()


def doctor(*, common: Reading = _USUAL) -> int:
    """Each line is ok, warn or fail, with what to do; the exit code is 1 if one of them is fail."""
    from forebay.cli.checkup import findings

    found = list(findings(common))
    if common.output != "table":
        output.write(found, common.output)
    else:
        output.table(("", "check", "found", "what to do"), [(x.verdict, x.name, x.text, x.remedy) for x in found])
    return 1 if any(each.verdict == "fail" for each in found) else 0
