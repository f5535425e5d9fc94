"""The final answer of a mathematical text: the last complete box, else what is named the answer, else the last "
"formula."""

from __future__ import annotations

import re
from dataclasses import dataclass

from headrace.verifiers.answer import final_number

_BOX = re.compile(r"\\(?:boxed|fbox)\s*(?=\{)")
_SEPARATORS = re.compile(
    r"(?:[\s$,;、.]|\\[()\[\],;! ]|\\text\s*\{\s*(?:and|or)\s*\}|\band\b|\bor\b|和|或|与)*", re.IGNORECASE
)
_NAMED = re.compile(r"\banswer\s*(?:is\b|[:=])|答案\s*(?:是|为|[:：])", re.IGNORECASE)
_FORMULA = re.compile(r"\$\$(.+?)\$\$|\$([^$]+?)\$|\\\((.+?)\\\)|\\\[(.+?)\\\]", re.DOTALL)
_SENTENCE_END = re.compile(r"\n|\.(?=\s|$)|。")
_SHORT = 100  # characters; a longer text without any formula or number is not an answer


@dataclass(frozen=True, slots=True)
class Extracted:
    """``answer`` as written, or None with the reason there is none."""

    answer: str | None
    reason: str = ""


def extract(text: str) -> Extracted:
    """The answer of a text whose thinking was taken off already."""
    if _BOX.search(text):
        return _from_boxes(text)
    named = list(_NAMED.finditer(text))
    tail = text[named[-1].end() :] if named else text
    formulas = [next(filter(None, match.groups())) for match in _FORMULA.finditer(tail)]
    if formulas:
        return _some(formulas[0] if named else formulas[-1])
    if named:
        sentence = _SENTENCE_END.split(tail.strip(" *:=\t\n"), maxsplit=1)[0]
        return _some(sentence.strip(" *"))
    number = final_number(text)
    if number is not None:
        return Extracted(number)
    return _some(text.strip()) if len(text.strip()) <= _SHORT else Extracted(None, "no answer")


def _some(answer: str) -> Extracted:
    answer = answer.strip()
    return Extracted(answer) if answer else Extracted(None, "no answer")


def _from_boxes(text: str) -> Extracted:
    """The last complete box, joined with boxes before it that only separators part from it."""
    boxes: list[tuple[int, int, str]] = []
    start = 0
    while match := _BOX.search(text, start):
        end = _closing_brace(text, match.end())
        if end < 0:  # a box that was begun later and never closed: the answer was not given
            return Extracted(None, "unfinished box")
        boxes.append((match.start(), end + 1, text[match.end() + 1 : end].strip()))
        start = end + 1
    parts = [boxes[-1]]
    for earlier in reversed(boxes[:-1]):
        if not _SEPARATORS.fullmatch(text, earlier[1], parts[0][0]):
            break
        parts.insert(0, earlier)
    contents = [content for _, _, content in parts]
    return Extracted(", ".join(contents)) if all(contents) else Extracted(None, "empty box")


def _closing_brace(text: str, opening: int) -> int:
    """Place of the brace that closes the one at ``opening``; -1 when there is none. ``\\{`` does not count."""
    depth, i = 0, opening
    while i < len(text):
        if text[i] == "\\":
            i += 2
            continue
        depth += (text[i] == "{") - (text[i] == "}")
        if depth == 0:
            return i
        i += 1
    return -1
