"""The outer form of an answer: one value, several, a tuple, a set, a matrix; names in front; equations."""

from __future__ import annotations

import re
from dataclasses import dataclass

from headrace.verifiers.math_text import matching

_RELATION = re.compile(r"\\(?:le|ge|ne|in|approx)(?![A-Za-z])|[<>=]")
_LIST_NUMBER = re.compile(r"-?[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?")
_GROUPED = re.compile(r"[^\d,;]*[1-9]\d{0,2}(?:,\d{3})+(?![\d,])[^,;]*")
_NAME = re.compile(r"[A-Za-z|:/(){}\\_,'\s]*[A-Za-z|)}'][A-Za-z|:/(){}\\_,'\s]*")


@dataclass(frozen=True, slots=True)
class Row:
    """A bracketed sequence: ``(3, 4)``, ``[0, 1)``. A pair may be meant as an interval."""

    items: tuple[str, ...]
    brackets: str


def parts(text: str, separators: str = ",;") -> list[str]:
    """The text cut at separators outside every bracket. ``1,234`` alone is one number, with a unit too."""
    if _GROUPED.fullmatch(text.strip()):
        return [text.strip()]
    if "," in separators and ", " in text:  # where lists are written with a space, a comma without one groups digits
        text = re.sub(r"(?<![\d,.])([1-9]\d{0,2})((?:,\d{3})+)(?![\d,])", lambda m: m[1] + m[2].replace(",", ""), text)
    found, depth, start, i = [], 0, 0, 0
    while i < len(text):
        char = text[i]
        if char == "\\":
            environment = re.match(r"\\(begin|end)\{", text[i:])
            if environment:
                depth += 1 if environment[1] == "begin" else -1
            elif text[i + 1 : i + 2] in ("{", "}"):
                depth += 1 if text[i + 1] == "{" else -1
            i += 2
            continue
        if char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
        elif depth <= 0 and char in separators:
            found.append(text[start:i])
            start = i + 1
        i += 1
    found.append(text[start:])
    return [part.strip() for part in found if part.strip()]


def row(text: str) -> Row | None:
    """The sequence when brackets hold the whole text and a comma or semicolon stands between them."""
    text = text.strip()
    french = re.fullmatch(r"([\[\]])([^\[\]]+)([\[\]])", text)
    if french and (french[1], french[3]) != ("[", "]"):
        text = f"{'[' if french[1] == '[' else '('}{french[2]}{']' if french[3] == ']' else ')'}"
    if len(text) < 5 or text[0] not in "([" or text[-1] not in ")]" or _outer_end(text) != len(text) - 1:
        return None
    inner = text[1:-1]
    items = parts(inner, ";") if ";" in inner else _plain_parts(inner)
    return Row(tuple(items), text[0] + text[-1]) if len(items) > 1 else None


def braces(text: str) -> tuple[str, ...] | None:
    """The elements of ``\\{...\\}``; empty for the empty set; None when it is no set in braces."""
    text = text.strip()
    if text in ("\\emptyset", "\\{\\}", "\\{ \\}"):
        return ()
    if not (text.startswith("\\{") and text.endswith("\\}")) or _outer_end(text) != len(text) - 1:
        return None
    inner = text[2:-2].strip()
    return tuple(parts(inner, ";") if ";" in inner else _plain_parts(inner))


def bare(text: str) -> str:
    """The text without brackets, braces or ``\\text`` that hold one value."""
    while True:
        text = text.strip()
        if text.startswith("\\text{") and matching(text, 5) == len(text) - 1:
            return text
        if len(text) > 2 and text[0] in "({[" and _outer_end(text) == len(text) - 1 and len(parts(text[1:-1])) <= 1:
            if text[0] == "[" or text[-1] == "]" or row(text) is not None:
                return text
            text = text[1:-1]
        elif len(text) > 2 and text[0] == "{" and matching(text, 0) == len(text) - 1:
            text = text[1:-1]  # LaTeX shows {1,2} as 1,2
        else:
            return text


def matrix(text: str) -> list[list[str]] | None:
    """The cells of a matrix environment that is the whole text, or of a Python-like ``[[1,2],[3,4]]``."""
    found = re.fullmatch(
        r"[(\[]?\s*\\begin\{(?:pmatrix|array)\}(?:\s*\{[^{}]*\})?(.*)\\end\{(?:pmatrix|array)\}\s*[)\]]?", text.strip()
    )
    if found:
        lines = re.split(r"\\\\(?:\s*\[[^\[\]]*\])?|\\cr\b", found[1])
        return [[cell.strip() for cell in line.split("&")] for line in lines if line.strip()]
    outer = row(text)
    if outer is not None and outer.brackets == "[]":
        rows = [row(item) for item in outer.items]
        if all(inner is not None and inner.brackets == "[]" for inner in rows):
            return [list(inner.items) for inner in rows if inner is not None]
    return None


def relation(text: str) -> list[str]:
    """[left, sign, middle, sign, right ...] of a chain of relations; one entry when there is none."""
    found, depth, start, i = [], 0, 0, 0
    while i < len(text):
        match = _RELATION.match(text, i) if depth <= 0 else None
        if match:
            found += [text[start:i].strip(), match[0]]
            start = i = match.end()
            continue
        if text[i] == "\\":
            depth += {"{": 1, "}": -1}.get(text[i + 1 : i + 2], 0)
            i += 2
            continue
        depth += (text[i] in "([{") - (text[i] in ")]}")
        i += 1
    found.append(text[start:].strip())
    return found


def is_name(text: str) -> bool:
    """Whether the left side of ``=`` only names what is asked for: ``x``, ``f(2)``, ``AB``, ``S_1:S_2``, ``(p, q)``."""
    plain = re.sub(r"\^\{-1\}(?=\()|_(?:\{[^{}]*\}|\w)", "", text)
    plain = re.sub(r"(?<=[A-Za-z'])\s*\(-?[\d.]+\)", "", plain).replace("\\text", "")
    return bool(_NAME.fullmatch(plain)) and not re.search(r"\\(?:sqrt|sin|cos|tan|log|ln|sum|int|pi)\b", plain)


def is_symbol(text: str) -> bool:
    """One letter, perhaps Greek or with a subscript."""
    return re.fullmatch(r"(?:[A-Za-z]|\\[A-Za-z]+)'*(?:_(?:\{[^{}]*\}|\w))?", text.strip()) is not None


def _plain_parts(text: str) -> list[str]:
    """Inside brackets every comma separates: ``(1,234)`` is a pair."""
    return text.split(",") if _LIST_NUMBER.fullmatch(text) else parts(text)


def _outer_end(text: str) -> int:
    """Where the bracket at the start of the text is closed, brackets of every kind counted alike."""
    depth, i = 0, 0
    while i < len(text):
        if text[i] == "\\" and text[i + 1 : i + 2] in ("{", "}"):
            depth += 1 if text[i + 1] == "{" else -1
            i += 2
        elif text[i] == "\\":
            i += 2
            continue
        else:
            depth += (text[i] in "([{") - (text[i] in ")]}")
            i += 1
        if depth == 0:
            return i - 1
    return -1
