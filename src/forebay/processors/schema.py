"""Decides whether a value is what a JSON schema asks for; of the schemas, those that structured output takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from forebay.errors import BadInput
from forebay.ids import shown

_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}
_KNOWN = {
    "type", "properties", "required", "additionalProperties", "items", "enum", "const", "anyOf",
    "minItems", "maxItems", "minLength", "maxLength", "minimum", "maximum", "title", "description",
}  # fmt: skip
_DEPTH = 16


def check(schema: Mapping[str, Any], *, depth: int = 0) -> None:
    """BadInput for a keyword that would be passed over, so that no answer is taken for checked that is not."""
    if depth > _DEPTH:
        raise BadInput("A schema is nested too deeply.", remedy=f"Keep it below {_DEPTH} levels.")
    unknown = sorted(schema.keys() - _KNOWN)
    if unknown:
        raise BadInput(f"A schema has {shown(unknown[0])}.", remedy=f"Known are {', '.join(sorted(_KNOWN))}.")
    for name in _types(schema):
        if name not in _TYPES:
            raise BadInput(f"A schema has the type {shown(name)}.", remedy=f"There are {', '.join(_TYPES)}.")
    inner = [*schema.get("properties", {}).values(), *schema.get("anyOf", ())]
    for each in [*inner, *([schema["items"]] if "items" in schema else [])]:
        check(each, depth=depth + 1)


def problem(value: object, schema: Mapping[str, Any]) -> str | None:
    """The first thing that is wrong, with where it is; None if nothing is."""
    return next(_problems(value, schema, "the answer"), None)


def _problems(value: object, schema: Mapping[str, Any], where: str) -> Iterator[str]:
    types = _types(schema)
    if types and not any(_is(value, name) for name in types):
        yield f"{where} is not of type {' or '.join(types)}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{where} is none of the values that it may have"
    if "const" in schema and value != schema["const"]:
        yield f"{where} is not the one value that it may have"
    if "anyOf" in schema and all(problem(value, each) for each in schema["anyOf"]):
        yield f"{where} is none of what it may be"
    yield from _bounds(value, schema, where)
    if isinstance(value, dict):
        yield from _members(value, schema, where)
    if isinstance(value, list) and "items" in schema:
        for index, each in enumerate(value):
            yield from _problems(each, schema["items"], f"{where}[{index}]")


def _members(value: Mapping[str, Any], schema: Mapping[str, Any], where: str) -> Iterator[str]:
    properties = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{where} has no {name}"
    for name, each in value.items():
        if name in properties:
            yield from _problems(each, properties[name], f"{where}.{name}")
        elif schema.get("additionalProperties") is False:
            yield f"{where} has {shown(name)}, which nobody asked for"


def _bounds(value: object, schema: Mapping[str, Any], where: str) -> Iterator[str]:
    if isinstance(value, str) and not schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value)):
        yield f"{where} has {len(value)} characters"
    if isinstance(value, list) and not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
        yield f"{where} has {len(value)} items"
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if number and not schema.get("minimum", value) <= value <= schema.get("maximum", value):
        yield f"{where} is {value}, which is out of bounds"


def _is(value: object, name: str) -> bool:
    if isinstance(value, bool):
        return name == "boolean"
    if name == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _TYPES[name])


def _types(schema: Mapping[str, Any]) -> list[str]:
    given = schema.get("type", [])
    return [given] if isinstance(given, str) else list(given)
