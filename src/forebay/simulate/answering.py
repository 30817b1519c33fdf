"""Answers a chat: the same for the same question, made of the words of the question, in the shape that is asked for."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from forebay.simulate.reading import language

_WORD: Final = re.compile(r"[^\W\d_]{4,}")
_BOUND: Final = re.compile(r"\bat (least|most) (-?[0-9]+(?:\.[0-9]+)?)")
_SENTENCE: Final = re.compile(r"(?<=[.!?])\s+")
_KEYWORDS: Final = 5
_LONGEST: Final = 200
_DEEPEST: Final = 12


def tokens(text: str) -> int:
    """About four letters each, as the usual estimate has it."""
    return -(-len(text) // 4)


def text_of(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, list):
        return "\n".join(str(each.get("text", "")) for each in content if isinstance(each, dict))
    return content if isinstance(content, str) else ""


def answer(asked: Mapping[str, Any]) -> str:
    """About the last thing that the user said."""
    said = [text_of(each) for each in asked["messages"] if each.get("role") == "user"]
    text = said[-1] if said else text_of(asked["messages"][-1])
    shape = asked.get("response_format") or {}
    if shape.get("type") == "json_schema":
        schema = (shape.get("json_schema") or {}).get("schema") or {}
        return json.dumps(_value("", schema, schema, text, 0), ensure_ascii=False)
    if shape.get("type") == "json_object":
        return json.dumps({"language": language(text)[0], "keywords": keywords(text)}, ensure_ascii=False)
    return _first_sentence(text)


def keywords(text: str, most: int = _KEYWORDS) -> list[str]:
    """The words that come most often, the longer ones first among equals."""
    counts = Counter(word.lower() for word in _WORD.findall(text))
    ranked = sorted(counts, key=lambda word: (-counts[word], -len(word), word))
    return ranked[:most]


def _value(name: str, schema: Mapping[str, Any], root: Mapping[str, Any], text: str, depth: int) -> Any:  # noqa: ANN401, C901, PLR0911 - one case for each kind of JSON
    schema = _resolved(schema, root)
    if depth > _DEEPEST:
        return None
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        return _of(schema["enum"], text)
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((each for each in kind if each != "null"), "null")
    if kind == "object" or "properties" in schema:
        fields = schema.get("properties") or {}
        return {each: _value(each, inner, root, text, depth + 1) for each, inner in fields.items()}
    if kind == "array":
        return _items(schema, root, text, depth)
    if kind == "integer":
        return int(_within(schema, len(text.split())))
    if kind == "number":
        return float(_within(schema, len(text.split())))
    if kind == "boolean":
        return bool(text.strip())
    if kind == "null":
        return None
    return _string(name, text)[: int(_bounds(schema, "minLength", "maxLength").get("most", _LONGEST))]


def _items(schema: Mapping[str, Any], root: Mapping[str, Any], text: str, depth: int) -> list[Any]:
    inner = _resolved(schema.get("items") or {}, root)
    bounds = _bounds(schema, "minItems", "maxItems")
    least = int(bounds.get("least", 0))
    most = int(bounds.get("most", max(_KEYWORDS, least)))
    if inner.get("type", "string") == "string" and not inner.get("enum"):
        found = keywords(text, most)
        return found + [f"word {number}" for number in range(len(found), least)]
    return [_value("", inner, root, text, depth + 1) for _ in range(max(least, min(1, most)))]


def _string(name: str, text: str) -> str:
    name = name.lower()
    if name in ("lang", "language", "language_code", "languagecode"):
        return language(text)[0]
    if name in ("title", "heading"):
        return next((line.strip() for line in text.splitlines() if line.strip()), "")
    return _first_sentence(text)


def _first_sentence(text: str) -> str:
    return _SENTENCE.split(" ".join(text.split()), 1)[0][:_LONGEST]


def _resolved(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    for _ in range(_DEEPEST):
        if "$ref" in schema:
            found: Any = root
            for step in str(schema["$ref"]).removeprefix("#").strip("/").split("/"):
                found = found.get(step, {}) if isinstance(found, Mapping) and step else found
            schema = found if isinstance(found, Mapping) else {}
        elif schema.get("anyOf"):
            schema = next((each for each in schema["anyOf"] if each.get("type") != "null"), schema["anyOf"][0])
        else:
            break
    return schema


def _of(choices: list[Any], text: str) -> Any:  # noqa: ANN401 - what the schema lists
    """The first choice that the text names, else one that follows from its length."""
    lower = text.lower()
    named = [each for each in choices if isinstance(each, str) and each.lower() in lower]
    return named[0] if named else choices[len(text) % len(choices)]


def _within(schema: Mapping[str, Any], number: float) -> float:
    bounds = _bounds(schema, "minimum", "maximum")
    return min(max(number, bounds.get("least", number)), bounds.get("most", number))


def _bounds(schema: Mapping[str, Any], least: str, most: str) -> dict[str, float]:
    """By its keywords, or as a description has them in words: strict schemas have no other way to say it."""
    given = {"least": schema.get(least), "most": schema.get(most)}
    said = {which: float(bound) for which, bound in _BOUND.findall(str(schema.get("description", "")))}
    return said | {which: float(bound) for which, bound in given.items() if bound is not None}
