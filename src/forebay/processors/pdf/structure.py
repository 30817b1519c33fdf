"""The structure of a document that is put together from the structures of its parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from pikepdf import Array, Dictionary, Name, Object, Pdf, String

from forebay.processors.pdf.tags import elements, is_element, kids, numbers, tree_of

_DOCUMENT: Final = "/Document"
_PLAIN: Final = {"/Type", "/S", "/P", "/K", "/Pg", "/Lang", "/NS"}
_LEAF: Final = 256


@dataclass(frozen=True, slots=True)
class Part:
    """The structure of one part: its elements at the top, and the new number of each entry of its parent tree."""

    source: Pdf
    tops: list[Object]
    parents: dict[int, Any]
    keys: dict[int, int]


class Structure:
    """Names that two parts use for different things are told apart; marks keep the numbers that a page gave them."""

    def __init__(self, target: Pdf) -> None:
        self._target = target
        self._root = target.make_indirect(Dictionary(Type=Name.StructTreeRoot))
        self._document = target.make_indirect(Dictionary(Type=Name.StructElem, S=Name.Document, P=self._root))
        self._kids: list[Object] = []
        self._parents: list[tuple[int, Object]] = []
        self._roles: dict[str, str] = {}
        self._classes: dict[str, tuple[bytes, Object]] = {}
        self._ids: dict[bytes, Object] = {}
        self._namespaces: list[Object] = []
        self._next = 0
        self.suspect = False
        self.user_properties = False

    def prepare(self, source: Pdf) -> Part | None:
        """Before anything of it is copied: names, numbers, and no way left from its elements to its own root."""
        root = tree_of(source)
        if root is None:
            return None
        marks = source.Root.get("/MarkInfo")
        if isinstance(marks, Dictionary):
            self.suspect |= bool(marks.get("/Suspects", False))
            self.user_properties |= bool(marks.get("/UserProperties", False))
        roles = self._take_roles(root)
        self._rename(source, root, roles, self._take_classes(source, root))
        parents = numbers(root.get("/ParentTree"))
        keys = {old: self._next + place for place, old in enumerate(sorted(parents))}
        self._next += len(keys)
        tops = [kid for kid in kids(root) if is_element(kid)]
        if len(tops) == 1 and self._is_plain(tops[0], roles, str(source.Root.get("/Lang", ""))):
            tops = kids(tops[0])
        for top in tops:
            if "/P" in top:
                del top["/P"]
        self._namespaces += [self._copy(source, each) for each in root.get("/Namespaces", Array())]
        for key in list(root.keys()):
            del root[key]  # an element that is in no tree may still lead here, and would bring it all along
        return Part(source, tops, parents, keys)

    def add(self, part: Part) -> list[Object]:
        """After its pages were copied, which its elements lead to; returns what is now at the top."""
        added = [self._copy(part.source, top) for top in part.tops]
        for element in added:
            element["/P"] = self._document
            if element.get("/S") == Name.Document:
                element["/S"] = Name.Part
        self._kids += added
        for old, value in part.parents.items():
            if isinstance(value, (Array, Dictionary)):
                self._parents.append((part.keys[old], self._copy(part.source, value)))
        return added

    def root(self) -> Object:
        """The whole, once every part was added."""
        root = self._root
        self._document["/K"] = Array(self._kids)
        root["/K"] = self._document
        root["/ParentTree"] = self._tree(sorted(self._parents, key=lambda each: each[0]), "/Nums")
        root["/ParentTreeNextKey"] = self._next
        if self._ids:
            named = sorted(self._ids.items())
            root["/IDTree"] = self._tree([(String(key), self._copy_again(each)) for key, each in named], "/Names")
        root["/RoleMap"] = Dictionary({name: Name(role) for name, role in self._roles.items()})
        if self._classes:
            root["/ClassMap"] = Dictionary({name: each for name, (_, each) in self._classes.items()})
        if self._namespaces:
            root["/Namespaces"] = Array(self._namespaces)
        return root

    def _copy(self, source: Pdf, item: Object) -> Object:
        return self._target.copy_foreign(item if item.is_indirect else source.make_indirect(item))

    def _copy_again(self, element: Object) -> Object:
        """Where it went when it was copied with what is above it."""
        return self._target.copy_foreign(element)

    def _tree(self, pairs: list[tuple[Any, Object]], name: str) -> Object:
        """A leaf holds so many; readers need not take in all to find one."""
        leaves = [pairs[at : at + _LEAF] for at in range(0, len(pairs), _LEAF)]
        made = [Dictionary({name: Array([each for pair in leaf for each in pair])}) for leaf in leaves]
        if len(made) <= 1:
            return self._target.make_indirect(made[0] if made else Dictionary({name: Array()}))
        for node, leaf in zip(made, leaves, strict=True):
            node["/Limits"] = Array([leaf[0][0], leaf[-1][0]])
        return self._target.make_indirect(Dictionary(Kids=Array([self._target.make_indirect(node) for node in made])))

    def _is_plain(self, element: Object, roles: dict[str, str], language: str) -> bool:
        """Whether it is no more than the frame around a document, which there is to be one of."""
        kind = str(element.get("/S"))
        return (
            kind == _DOCUMENT
            and kind not in roles
            and set(element.keys()) <= _PLAIN
            and str(element.get("/Lang", language)) == language
            and all(is_element(kid) and kid.is_indirect for kid in kids(element))
        )

    def _take_roles(self, root: Object) -> dict[str, str]:
        """Those of the part's own kinds that have to be called something else here."""
        renamed = {}
        given = root.get("/RoleMap")
        for name, role in given.items() if isinstance(given, Dictionary) else ():
            if isinstance(role, Name):
                new = _free(name, lambda each, role=str(role): self._roles.get(each, role) == role)
                self._roles[new] = str(role)
                if new != name:
                    renamed[name] = new
        return renamed

    def _take_classes(self, source: Pdf, root: Object) -> dict[str, str]:
        renamed = {}
        given = root.get("/ClassMap")
        for name, attributes in given.items() if isinstance(given, Dictionary) else ():
            if isinstance(attributes, (Dictionary, Array)):
                said = attributes.unparse(resolved=True)
                new = _free(name, lambda each, said=said: self._classes.get(each, (said,))[0] == said)
                if new not in self._classes:
                    self._classes[new] = (said, self._copy(source, attributes))
                if new != name:
                    renamed[name] = new
        return renamed

    def _rename(self, source: Pdf, root: Object, roles: dict[str, str], classes: dict[str, str]) -> None:
        """One walk over all elements; most of them only tell that they have no name."""
        ids: dict[bytes, bytes] = {}
        tabular: list[Object] = []
        for node, _, _ in elements(root):
            if roles and str(node.get("/S")) in roles:
                node["/S"] = Name(roles[str(node["/S"])])
            if classes and "/C" in node:
                node["/C"] = _classed(node["/C"], classes)
            if "/ID" in node:
                self._take_id(source, node, ids)
            if "/A" in node:
                tabular.append(node)
        changed = {old: new for old, new in ids.items() if old != new}
        if changed:
            for node in tabular:
                _lead(node["/A"], changed)

    def _take_id(self, source: Pdf, node: Object, ids: dict[bytes, bytes]) -> None:
        old = bytes(node["/ID"])
        new, count = old, 2
        while new in self._ids:
            new, count = old + b"-%d" % count, count + 1
        if new != old:
            node["/ID"] = String(new)
        ids.setdefault(old, new)
        self._ids[new] = node if node.is_indirect else source.make_indirect(node)


def _free(name: str, fits: Any) -> str:  # noqa: ANN401 - a function of a name
    """The name itself, or one like it, that stands for nothing else."""
    new, count = name, 2
    while not fits(new):
        new, count = f"{name}-{count}", count + 1
    return new


def _classed(given: Object, classes: dict[str, str]) -> Object:
    if isinstance(given, Name):
        return Name(classes.get(str(given), str(given)))
    if isinstance(given, Array):
        return Array([_classed(each, classes) if isinstance(each, Name) else each for each in given])
    return given


def _lead(attributes: Object, ids: dict[bytes, bytes]) -> None:
    """Cells of a table name their headers."""
    for each in attributes if isinstance(attributes, Array) else [attributes]:
        headers = each.get("/Headers") if isinstance(each, Dictionary) else None
        if isinstance(headers, Array):
            each["/Headers"] = Array([String(ids.get(bytes(one), bytes(one))) for one in headers])
