"""What structured output refuses of a schema when it is strict: by Azure's list, the longer of the two."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

_REFUSED: Final = frozenset({
    "minLength", "maxLength", "pattern", "format", "minimum", "maximum", "multipleOf",
    "patternProperties", "unevaluatedProperties", "propertyNames", "minProperties", "maxProperties",
    "unevaluatedItems", "contains", "minContains", "maxContains", "minItems", "maxItems", "uniqueItems",
})  # fmt: skip
_OF_SCHEMAS: Final = ("properties", "$defs", "definitions")
_DEEPEST: Final = 32


def objection(shape: object) -> str | None:
    """To a `response_format`, in the words of the API; None if there is none."""
    asked = shape.get("json_schema") if isinstance(shape, Mapping) else None
    if not isinstance(asked, Mapping) or asked.get("strict") is not True:
        return None
    found = next(_refused(asked.get("schema"), ()), None)
    if found is None:
        return None
    context, keyword = found
    where = f"response_format '{asked.get('name')}': In context={context!r}"
    return f"Invalid schema for {where}, '{keyword}' is not permitted."


def _refused(schema: Any, context: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:  # noqa: ANN401 - JSON
    if not isinstance(schema, Mapping) or len(context) > _DEEPEST:
        return
    for keyword in schema:
        if keyword in _REFUSED:
            yield context, keyword
    for group in _OF_SCHEMAS:
        inner = schema.get(group)
        for name, each in inner.items() if isinstance(inner, Mapping) else ():
            yield from _refused(each, (*context, group, name))
    yield from _refused(schema.get("items"), (*context, "items"))
    choices = schema.get("anyOf")
    for index, each in enumerate(choices if isinstance(choices, list) else ()):
        yield from _refused(each, (*context, "anyOf", str(index)))
