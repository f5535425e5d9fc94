"""Which part of a response is the program: the last Python block behind the thinking."""

from __future__ import annotations

import re
from dataclasses import dataclass

from headrace.verifiers.answer import after_thinking

_FENCE = re.compile(r"^(?P<indent>[ \t]*)(?P<fence>`{3,}|~{3,})[ \t]*(?P<language>[^\s`{]*)[^`]*$")
_PYTHON = frozenset({"python", "py", "python3", "py3"})


@dataclass(frozen=True, slots=True)
class Block:
    """``code`` of the program, or None with the ``reason`` why there is none."""

    code: str | None
    reason: str = ""


def find_program(response: str) -> Block:
    """The last block fenced as ``python`` (``py``, ``python3``); without one, the last block that names no language.

    A block that is never closed makes the response wrong: it was cut off, and an earlier block is not what it meant.
    """
    text = after_thinking(response)
    if text is None:
        return Block(None, "thinking never ended")
    labelled, bare, open_block = _blocks(text)
    if open_block is not None and open_block in _PYTHON | {""}:
        return Block(None, "the code block is never closed")
    found = labelled or bare
    if not found:
        return Block(None, "no code block" if text.strip() else "empty")
    return Block(found[-1]) if found[-1].strip() else Block(None, "the code block is empty")


def as_response(code: str) -> str:
    """A response that holds just this program, whatever is written in it."""
    longest = max((len(run) for run in re.findall(r"`+", code)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}python\n{code}\n{fence}"


def _blocks(text: str) -> tuple[list[str], list[str], str | None]:
    """(Python blocks, blocks without a language, language of a block that is open at the end)."""
    labelled: list[str] = []
    bare: list[str] = []
    fence, language, indent, lines = "", "", "", list[str]()
    for line in text.split("\n"):
        line = line.removesuffix("\r")
        match = _FENCE.match(line)
        if not fence:
            if match is not None:
                fence, language, indent, lines = match["fence"], match["language"].lower(), match["indent"], []
        elif match is not None and _closes(match, fence):
            if language in _PYTHON:
                labelled.append("\n".join(lines))
            elif not language:
                bare.append("\n".join(lines))
            fence = ""
        else:
            lines.append(line.removeprefix(indent))
    return labelled, bare, language if fence else None


def _closes(match: re.Match[str], fence: str) -> bool:
    found = match["fence"]
    return found[0] == fence[0] and len(found) >= len(fence) and match.string.strip() == found
