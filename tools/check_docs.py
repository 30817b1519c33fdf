"""Checks that every relative link in the documents resolves and that no requirement names a host."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]*`")
LINK = re.compile(r"\]\(<?([^)>\s]+)>?(?:\s+\"[^\"]*\")?\)|^\[[^\]]+\]:\s+(\S+)", re.MULTILINE)
ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:|#")


def documents() -> list[Path]:
    found = (path for path in ROOT.rglob("*.md") if not any(p.startswith(".") for p in path.relative_to(ROOT).parts))
    return sorted(found)


def broken_links(document: Path) -> list[str]:
    text = CODE.sub("", FENCE.sub("", document.read_text(encoding="utf-8")))
    targets = (inline or reference for inline, reference in LINK.findall(text))
    return [
        f"{document.relative_to(ROOT)}: {target} leads nowhere"
        for target in targets
        if not ELSEWHERE.match(target) and not (document.parent / target.partition("#")[0]).exists()
    ]


def named_hosts(requirements: Path) -> list[str]:
    lines = requirements.read_text(encoding="utf-8").splitlines()
    return [
        f"{requirements.relative_to(ROOT)}:{number}: names a host"
        for number, line in enumerate(lines, 1)
        if "://" in line
    ]


def main() -> int:
    found = documents()
    findings = [finding for document in found for finding in broken_links(document)]
    findings += [finding for path in sorted((ROOT / "requirements").iterdir()) for finding in named_hosts(path)]
    for finding in findings:
        print(finding)
    print(f"{len(found)} documents, {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
