"""The final answer of a mathematical text: the last complete box, else what is named the answer, else the last line
or formula."""

from __future__ import annotations

import re
from dataclasses import dataclass

from headrace.verifiers.answer import final_number
from headrace.verifiers.math_fallback import looks_like_code

MAX_CHARACTERS = 4_000_000

_BOX = re.compile(r"\\(?:begin)?(?:boxed|fbox)\s*(?:(?=\{)|(?P<bare>[A-Za-z0-9.+-]+)|(?=$))")
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)
_SEPARATORS = re.compile(
    r"(?:[\s$,;、，；.]|\\[()\[\],;:! ]|\\q?quad\b|\\text\s*\{\s*,?\s*(?:and|or)\s*\}"
    r"|\*\*|\band\b|\bor\b|和|或|与|及)*",
    re.IGNORECASE,
)
_TAGGED = re.compile(r"<answer>(.{0,20000}?)</answer>", re.DOTALL | re.IGNORECASE)
_NAMED = re.compile(
    r"\b(?:final |correct )?(?:(?:answer|result|option|choice)s?\b\s*(?:\*\*|:\*\*)?\s*"
    r"(?:(?:is|are)\b\s*:?|[:=]|(?:to|for|of) [^\n.$:]{1,80}? (?:is|are)\b\s*:?)"
    r"|(?:solution|root)s?\b\s*(?:is|are)\b\s*:?)\s*(?:\*\*)?"
    r"|(?:最终)?(?:答案|结果)\s*(?:\*\*)?\s*(?:应该?是|就?是|为|[:：=])\s*[:：]?\s*(?:\*\*)?"
    r"|答\s*[:：]|(?m:^[ \t]*\#{4}[ \t]*)",
    re.IGNORECASE,
)
_FORMULA = re.compile(
    r"\$\$(.{1,4000}?)\$\$|(?<!\\)\$((?:\\\$|[^$]){1,4000}?)(?<!\\)\$|\\\((.{1,4000}?)\\\)|\\\[(.{1,4000}?)\\\]",
    re.DOTALL,
)
_JOINING = re.compile(r"\s*(?:,\s*(?:and|or)?|and|or|和|或|与|、|及)\s*", re.IGNORECASE)
_SAID = re.compile(
    r".*(?:\b(?:is|are|equals?|be|gives|get|at|by|to|was)\b|是|为|于|得|有)\s*:?\s*(?P<rest>.{1,300})$", re.DOTALL
)
_SENTENCE_END = re.compile(r"\n|[.!?](?=\s|$)|[。！？]")
_REASON = re.compile(
    r",?\s*\b(?:because|since|which|where|as (?:we|it|the|this|\d)|so that|by the|due to|I hope)\b.*|，?\s*因为.*",
    re.DOTALL,
)
_PROSE = re.compile(
    r"(?<![\\A-Za-z])(?!(?:sqrt|sin|cos|tan|log|exp|and|pm|inf|infinity|arc\w+)(?![A-Za-z]))[A-Za-z]{3,}"
    r"|(?<![\\A-Za-z{])(?:is|it|so|we|he|if|as|to|of|at|by)(?![A-Za-z])",
    re.IGNORECASE,
)
_LATEX_WORDS = re.compile(r"\\[A-Za-z]+(?:\s*\{[^{}]*\})?")
_TURN_END = re.compile(r"<\|(?:im_end|im_start|endoftext|eot_id|end_of_text)\|>|</s>|<eos>")
_SHORT = 200  # characters; a longer text without any formula or number is not an answer
_MAX_JOINED = 200  # boxes that may form one answer
_TAIL = 20_000  # characters at the end in which an answer without a box is looked for


@dataclass(frozen=True, slots=True)
class Extracted:
    """``answer`` as written, or None with the reason there is none.

    ``boxed``: it stood in a box. ``also``: the only number of an answer that is a sentence.
    """

    answer: str | None
    reason: str = ""
    boxed: bool = False
    also: str = ""


def extract(text: str) -> Extracted:
    """The answer of a text whose thinking was taken off already."""
    if len(text) > MAX_CHARACTERS:
        return Extracted(None, "the response is too long")
    if _BOX.search(text):
        return _from_boxes(text)
    text = _TURN_END.split(text[-_TAIL:])[0]
    tagged = _TAGGED.findall(text)
    if tagged:
        return _some(tagged[-1])
    named = list(_NAMED.finditer(text))
    if named:
        found = _after_name(text[named[-1].end() :])
        return found if found.answer is not None else _without_name(text[: named[-1].start()] if "\n" in text else "")
    return _without_name(text)


def _after_name(tail: str) -> Extracted:
    """What follows "the answer is": the formulas that a list joins, or the sentence without its reasons."""
    tail = tail.strip(" *:=：\t\n")
    formula = _FORMULA.match(tail)
    if formula:
        return _some(_joined(tail, formula))
    sentence = _REASON.sub("", _SENTENCE_END.split(tail, maxsplit=1)[0]).strip(" *`\t")
    if not sentence:
        return _some("") if formula is None and not (found := _FORMULA.search(tail)) else _some(_joined(tail, found))
    said = _said(sentence)
    if said is not None:
        return said
    inner = _FORMULA.search(sentence)
    if inner and not re.search(r"\d", sentence[: inner.start()]):
        return _some(_joined(sentence, inner))
    return Extracted(sentence, also=_only_number(sentence) if _is_prose(sentence) else "")


def _without_name(text: str) -> Extracted:
    """The last line if it is nothing but mathematics, what the last sentence says something is, or the last value."""
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    if lines and looks_like_code(lines[-1]):
        return Extracted(None, "no answer")
    last = lines[-1].strip("* ") if lines else ""
    if last and len(last) <= _SHORT and "$" not in last and "#" not in last and _is_value(last):
        return Extracted(last)
    sentences = [sentence for sentence in _SENTENCE_END.split(last) if sentence.strip()]
    said = _said(sentences[-1].strip(" *`")) if sentences else None
    if said is not None:
        return said
    formulas = list(_FORMULA.finditer(text))
    if formulas:
        return _some(_group(formulas[-1]))
    number = final_number(text)
    if number is not None:
        hedged = re.search(rf"([-\d./]{{1,40}})\s*(?:,\s*)?(?:or|或)\s*{re.escape(number)}(?!.*\d)", text, re.DOTALL)
        return Extracted(f"{hedged[1]}, {number}" if hedged else number)
    return _some(text.strip()) if len(text.strip()) <= _SHORT else Extracted(None, "no answer")


def _said(sentence: str) -> Extracted | None:
    """What the end of a sentence says something is or comes to, if that is one value and not prose."""
    found = _SAID.match(sentence)
    rest = _REASON.sub("", found["rest"]).strip(" *`") if found else ""
    if not rest or re.search(r"\bnot\b|不", sentence) or not re.search(r"[\d$\\]|^\(?[A-J]\)?$", rest):
        return None
    formula = _FORMULA.match(rest)
    if formula:
        return _some(_joined(rest, formula))
    return None if _is_prose(rest) or "$" in rest[1:] else Extracted(rest)


def _only_number(sentence: str) -> str:
    """The number of a sentence that has one number and denies nothing."""
    number = final_number(sentence)
    alone = (
        number is not None and len(re.findall(r"\d[\d.,]*", sentence)) == 1 and not re.search(r"\bnot\b|不", sentence)
    )
    return number if number is not None and alone else ""


def _is_value(line: str) -> bool:
    return re.search(r"[^\W_]", line) is not None and not _is_prose(line)


def _is_prose(line: str) -> bool:
    """Whether a line has words besides LaTeX commands and names of functions."""
    plain = _LATEX_WORDS.sub(" ", line)
    return _PROSE.search(plain) is not None or re.search(r"[\u4e00-\u9fff]{3,}", plain) is not None


def _joined(text: str, formula: re.Match[str]) -> str:
    """A formula and those that "and", "or" or a comma joins to it."""
    answers = [_group(formula)]
    while (link := _JOINING.match(text, formula.end())) is not None and link.end() > formula.end():
        following = _FORMULA.match(text, link.end())
        if following is None:
            break
        answers.append(_group(following))
        formula = following
    behind = re.match(r"\s*(?:\\?%|percent\b)", text[formula.end() :])
    return ", ".join(answers) + ("%" if behind else "")


def _group(formula: re.Match[str]) -> str:
    return next(group for group in formula.groups() if group is not None)


def _some(answer: str) -> Extracted:
    answer = answer.strip()
    return Extracted(answer) if answer else Extracted(None, "no answer")


def _from_boxes(text: str) -> Extracted:
    """The last complete box, joined with boxes before it that only separators part from it.

    A box that was begun later and never closed means that the answer was not given.
    """
    closing = _closing_braces(text)
    boxes: list[tuple[int, int, str]] = []
    unfinished = False
    for match in _BOX.finditer(text):
        if boxes and match.start() < boxes[-1][1]:
            continue  # a box in a box
        if match["bare"] is not None:
            content, end = match["bare"].rstrip("."), match.end()
        elif match.end() in closing:
            content, end = text[match.end() + 1 : closing[match.end()]].strip(), closing[match.end()] + 1
        else:
            unfinished = True
            continue
        unfinished = False
        boxes.append((match.start(), end, content))
    if unfinished or not boxes:
        return Extracted(None, "unfinished box", boxed=True)
    parts = [boxes[-1]]
    for earlier in reversed(boxes[-_MAX_JOINED:-1]):
        if not _SEPARATORS.fullmatch(text, earlier[1], parts[-1][0]):
            break
        parts.append(earlier)
    contents = [_inner(content) for _, _, content in reversed(parts)]
    if not all(contents):
        return Extracted(None, "empty box", boxed=True)
    behind = re.match(r"\s*\$?\s*(?:\\?%|percent\b|pct\b)", text[boxes[-1][1] : boxes[-1][1] + 20])
    return Extracted(", ".join(dict.fromkeys(contents)) + ("\\%" if behind else ""), boxed=True)


def _inner(content: str) -> str:
    """The content of a box that holds nothing but a box."""
    while (match := _BOX.match(content)) is not None and match["bare"] is None:
        if _closing_braces(content).get(match.end()) != len(content) - 1:
            break
        content = content[match.end() + 1 : -1].strip()
    return content


def _closing_braces(text: str) -> dict[int, int]:
    """Place of the closing brace for every opening one that has it, in one pass. ``\\{`` does not count."""
    found: dict[int, int] = {}
    open_at: list[int] = []
    for match in _BRACE.finditer(text):
        if match[0] == "{":
            open_at.append(match.start())
        elif match[0] == "}" and open_at:
            found[open_at.pop()] = match.start()
    return found
