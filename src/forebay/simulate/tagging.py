"""Makes a tagged PDF, as auto-tagging does: a structure tree whose leaves are the marked content of every page."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass, field

import pikepdf
from pikepdf import Array, ContentStreamInstruction, Dictionary, Name, Operator

_MARKS = {"BDC", "BMC", "EMC", "MP", "DP"}
_PAINTS = {"Do", "EI", "INLINE IMAGE", "S", "s", "f", "F", "f*", "B", "B*", "b", "b*", "sh"}
_HEADING = 1.3  # times the usual size of letters


class Untaggable(Exception):
    """It is not a PDF, or one that asks for a password."""


@dataclass
class _Tree:
    """The structure that is being built; `parents` is its parent tree: an array for a page, an element for others."""

    pdf: pikepdf.Pdf
    shift: bool
    children: list[pikepdf.Object] = field(default_factory=list)
    parents: list[pikepdf.Object] = field(default_factory=list)

    def element(self, kind: str, content: object, page: pikepdf.Page, **entries: object) -> pikepdf.Object:
        fields = {"/Type": Name.StructElem, "/S": Name("/" + kind), "/Pg": page.obj, "/K": content}
        made = self.pdf.make_indirect(Dictionary(fields | {f"/{name}": value for name, value in entries.items()}))
        self.children.append(made)
        return made


def tagged(data: bytes, *, language: str, shift_headings: bool = False) -> bytes:
    """The document with its own tags gone and new ones in their place."""
    try:
        pdf = pikepdf.open(io.BytesIO(data))
    except pikepdf.PdfError as error:
        raise Untaggable(str(error)) from None
    with pdf:
        tree = _Tree(pdf, shift_headings)
        for page in pdf.pages:
            _page(tree, page)
        _root(tree, language)
        out = io.BytesIO()
        pdf.save(out, deterministic_id=True)
        return out.getvalue()


def _page(tree: _Tree, page: pikepdf.Page) -> None:
    runs = _runs(_unmarked(pikepdf.parse_content_stream(page)))
    sizes = sorted(run.size for run in runs if run.text)
    usual = sizes[len(sizes) // 2] if sizes else 0.0
    written: list[ContentStreamInstruction] = []
    elements: list[pikepdf.Object] = []
    for run in runs:
        if run.text:
            heading = len(sizes) > 1 and run.size >= usual * _HEADING
            kind = ("H2" if tree.shift else "H1") if heading else "P"
            entries = {}
        elif run.paints:
            kind, entries = "Figure", {"Alt": pikepdf.String("Figure")}
        else:
            written += run.steps
            continue
        mark = len(elements)
        written += [_step([Name("/" + kind), Dictionary(MCID=mark)], "BDC"), *run.steps, _step([], "EMC")]
        elements.append(tree.element(kind, mark, page, **entries))
    page.Contents = tree.pdf.make_stream(pikepdf.unparse_content_stream(written))
    page.StructParents = len(tree.parents)
    page.Tabs = Name.S
    tree.parents.append(tree.pdf.make_indirect(Array(elements)))
    for annotation in page.get("/Annots", Array()):
        _annotation(tree, page, annotation)


def _annotation(tree: _Tree, page: pikepdf.Page, annotation: pikepdf.Object) -> None:
    kind = "Link" if annotation.get("/Subtype") == Name.Link else "Annot"
    if not annotation.is_indirect:
        return
    reference = Dictionary(Type=Name.OBJR, Obj=annotation, Pg=page.obj)
    annotation.StructParent = len(tree.parents)
    tree.parents.append(tree.element(kind, reference, page))


def _root(tree: _Tree, language: str) -> None:
    pdf = tree.pdf
    root = pdf.make_indirect(Dictionary(Type=Name.StructTreeRoot, RoleMap=Dictionary()))
    document = pdf.make_indirect(Dictionary(Type=Name.StructElem, S=Name.Document, P=root, K=Array(tree.children)))
    for child in tree.children:
        child.P = document
    numbers = [each for number, parent in enumerate(tree.parents) for each in (number, parent)]
    root.K = document
    root.ParentTree = pdf.make_indirect(Dictionary(Nums=Array(numbers)))
    root.ParentTreeNextKey = len(tree.parents)
    pdf.Root.StructTreeRoot = root
    pdf.Root.MarkInfo = Dictionary(Marked=True)
    pdf.Root.Lang = pikepdf.String(language)


@dataclass
class _Run:
    """Steps that belong together: a text object, or what stands between two of them."""

    steps: list[ContentStreamInstruction]
    text: bool = False
    paints: bool = False
    size: float = 0.0


def _runs(steps: Iterable[ContentStreamInstruction]) -> list[_Run]:
    found = [_Run([])]
    for step in steps:
        name = str(step.operator)
        if name == "BT":
            found.append(_Run([step], text=True))
            continue
        run = found[-1]
        run.steps.append(step)
        run.paints = run.paints or name in _PAINTS
        if name == "Tf":
            run.size = max(run.size, abs(float(step.operands[1])))
        if name == "ET":
            found.append(_Run([]))
    return [run for run in found if run.steps]


def _unmarked(steps: Iterable[object]) -> Iterable[ContentStreamInstruction]:
    for step in steps:
        if str(step.operator) not in _MARKS:  # type: ignore[attr-defined]
            yield step  # type: ignore[misc]  # inline images have the same shape


def _step(operands: list[object], operator: str) -> ContentStreamInstruction:
    return ContentStreamInstruction(operands, Operator(operator))  # type: ignore[arg-type]


def report(pages: int, elements: str = "auto-tagging report") -> bytes:
    """A spreadsheet with one row, as the accessibility report is one."""
    cells = "".join(f'<c t="inlineStr"><is><t>{text}</t></is></c>' for text in (elements, f"{pages} pages"))
    main = "http://schemas.openxmlformats.org/"
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{main}package/2006/content-types">'
        '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        '<Override PartName="/xl/workbook.xml" ContentType='
        '"application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml"/>'
        '<Override PartName="/xl/sheet1.xml" ContentType='
        '"application/vnd.openxmlformats-officedocument.spreadsheetml.worksheet+xml"/></Types>',
        "_rels/.rels": f'<Relationships xmlns="{main}package/2006/relationships"><Relationship Id="r1" '
        f'Type="{main}officeDocument/2006/relationships/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook xmlns="{main}spreadsheetml/2006/main" '
        f'xmlns:r="{main}officeDocument/2006/relationships"><sheets><sheet name="Report" sheetId="1" r:id="r1"/>'
        "</sheets></workbook>",
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{main}package/2006/relationships"><Relationship Id="r1" '
        f'Type="{main}officeDocument/2006/relationships/worksheet" Target="sheet1.xml"/></Relationships>',
        "xl/sheet1.xml": f'<worksheet xmlns="{main}spreadsheetml/2006/main"><sheetData><row>{cells}</row></sheetData>'
        "</worksheet>",
    }
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, text in parts.items():
            packed.writestr(zipfile.ZipInfo(name), '<?xml version="1.0" encoding="UTF-8"?>' + text)
    return out.getvalue()
