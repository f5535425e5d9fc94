"""Spelling of mathematical answers: one form for the many ways to write the same thing.

What comes out is plain LaTeX: ASCII signs, ``\\frac{a}{b}`` with its braces, ``\\text{...}`` for every kind of upright
text, ``\\cdot`` for every product sign, and no sizes, thin spaces or dollar signs.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import lru_cache

_SIGNS = str.maketrans(
    {
        **dict.fromkeys("−–‒—﹣‑", "-"),
        **dict.fromkeys("×⋅·∙✕", "\\cdot "),
        **{"÷": "/", "∕": "/", "⁄": "/", "≤": "\\le ", "⩽": "\\le ", "≥": "\\ge ", "⩾": "\\ge ", "≠": "\\ne "},
        **{
            "±": "\\pm ",
            "∓": "\\mp ",
            "∪": "\\cup ",
            "∩": "\\cap ",
            "∈": "\\in ",
            "∅": "\\emptyset ",
            "≈": "\\approx ",
        },
        **{"ℝ": "\\mathbb{R}", "ℤ": "\\mathbb{Z}", "ℕ": "\\mathbb{N}", "ℚ": "\\mathbb{Q}", "∞": "\\infty "},
        **{"π": "\\pi ", "θ": "\\theta ", "α": "\\alpha ", "β": "\\beta ", "λ": "\\lambda ", "φ": "\\varphi "},
        **{"°": "^{\\circ}", "º": "^{\\circ}", "′": "'", "∠": "\\angle ", "△": "\\triangle ", "、": ",", "。": "."},
        **dict.fromkeys("\u200b\u200c\u200d\u2060\ufeff\x00", ""),
    }
)
DOLLAR = "¤"
"""Stands for a dollar sign that means money."""

_RAISED = {
    "⁰": "0",
    "¹": "1",
    "²": "2",
    "³": "3",
    "⁻": "-",
    "⁺": "+",
    "ⁿ": "n",
    **{chr(0x2070 + i): str(i) for i in range(4, 10)},
}
_RAISED_RUN = re.compile(f"[{''.join(_RAISED)}]+")
_VULGAR = re.compile("[¼-¾⅐-⅞]")
_ROOT = re.compile(r"√\s*(\d+|[A-Za-z]|(?=\())")

_UPRIGHT = re.compile(
    r"\\(?:text(?:bf|it|rm|normal|sf|tt|sc)?|mathrm|math(?:bf|it|sf)(?!\s*\{[A-Za-z]\})|mbox|hbox|operatorname\*?|emph)\s*\{"
)
_UPRIGHT_NUMBER = re.compile(r"\\text\{([^{}]*\d[^{}]*|\w{1,2}(?:\s*(?:,|and|or|&)\s*\w{1,2})+)\}")
_COLOURS = re.compile(r"\\(?:text)?color\s*\{[^{}]*\}|\\underline(?![A-Za-z])|\\checkmark(?![A-Za-z])")
_SIZES = re.compile(
    r"\\(?:left|right|middle|[bB]igg?[lrm]?|displaystyle|textstyle|limits|nolimits|boldsymbol|bm|rm|bf|it)(?![A-Za-z])"
)
_SPACES = re.compile(
    r"(\\\\)|\\[,;:> ]|\\(?:q?quad|thinspace|medspace|enspace|hspace\{[^{}]*\}"
    r"|phantom\{[^{}]*\}|newline)(?![A-Za-z])|~|\s"
)
_MACROS = {
    **dict.fromkeys(("dfrac", "tfrac", "cfrac"), "\\frac"),
    **dict.fromkeys(("dbinom", "tbinom"), "\\binom"),
    **dict.fromkeys(("times", "cdot", "ast", "bullet"), "\\cdot "),
    **{"div": "/", "leq": "\\le ", "geq": "\\ge ", "leqslant": "\\le ", "geqslant": "\\ge ", "lt": "<", "gt": ">"},
    **{
        "neq": "\\ne ",
        "varnothing": "\\emptyset ",
        "degree": "^{\\circ}",
        "lbrace": "\\{",
        "rbrace": "\\}",
        "colon": ":",
    },
    **dict.fromkeys(("lvert", "rvert", "vert", "mid"), "|"),
    **{"langle": "(", "rangle": ")", "lbrack": "[", "rbrack": "]", "lparen": "(", "rparen": ")"},
    **{"land": "\\wedge ", "lor": "\\vee ", "ldots": "\\ldots ", "dots": "\\ldots ", "cdots": "\\ldots "},
    **{
        "Large": "",
        "large": "",
        "huge": "",
        "Huge": "",
        "normalsize": "",
        "nonumber": "",
        "hfill": "",
        "approxeq": "\\approx ",
        "pounds": "£",
        "euro": "€",
    },
}
_MACRO = re.compile(r"\\(" + "|".join(sorted(_MACROS, key=len, reverse=True)) + r")(?![A-Za-z])")
_FUNCTIONS = "arcsin|arccos|arctan|sinh|cosh|tanh|sin|cos|tan|cot|sec|csc|log|ln|exp|sqrt|pi|max|min|gcd|lcm"
_PLAIN_FUNCTION = re.compile(rf"(?<![\\A-Za-z{{])({_FUNCTIONS})(?![A-Za-z])")
_PLAIN_INFINITY = re.compile(r"(?<![\\A-Za-z])(?:infinity|infty|inf|oo)(?![A-Za-z])", re.IGNORECASE)
_GROUPED = re.compile(r"(?<![\d.,])(\d{1,3})((?:(?:\\,|\s?\{\s*,\s*\}\s?| )\d{3})+)(?![\d])")
_DECIMAL_COMMA = re.compile(r"(?<=\d)\{\s*,\s*\}(?=\d)")
_REPEATING = re.compile(r"(\d*)\.(\d*)\\(?:overline|dot|bar)\s*\{?(\d+)\}?(?:(\d*)\\dot\s*\{?(\d)\}?)?")
_MAX_CYCLE = 200
_FRACTION = re.compile(r"\\frac(?![A-Za-z])\s*")
_EXPONENT = re.compile(r"\^\s*\(")
_BARE_EXPONENT = re.compile(r"\^\s*(-?\d+(?:\.\d+)?)")
_TOKEN = re.compile(r"\\[A-Za-z]+|\\.|[^\\]", re.DOTALL)
_JOIN = re.compile(
    r"\\text\{\s*,?\s*(?:and|or|和|或|及|与)\s*\}|(?<![A-Za-z\\{])(?:and|or)(?![A-Za-z])|和|或(?!许)|及|与"
)


@lru_cache(maxsize=4096)
def normalise(text: str) -> str:
    """The text in the form described above; separators between answers ("and", "or", 或) become commas."""
    text = _ascii(text)
    if "\\begin" not in text:
        text = re.sub(r"\\\\(?=[A-Za-z(\[{%$])", r"\\", text)  # a backslash doubled on the way, by JSON or a prompt
    text = re.sub(r"\\!\s*", "", text).replace("\\left.", "").replace("\\right.", "")
    text = _strip_marks(text)
    text = re.sub(r"\\text\s*\{\s*\\?\$\s*\}|\\text\s*\{\s*" + DOLLAR + r"\s*\}", DOLLAR, _COLOURS.sub("", text))
    text = _UPRIGHT.sub(r"\\text{", text)
    whole = _UPRIGHT_NUMBER.fullmatch(text.strip())
    text = whole[1] if whole else text
    text = _GROUPED.sub(lambda m: m[1] + re.sub(r"\D", "", m[2]), text)
    text = _DECIMAL_COMMA.sub(".", text)
    text = _SPACES.sub(lambda m: m[1] or " ", _SIZES.sub("", text))
    text = _MACRO.sub(lambda m: _MACROS[m[1]], text)
    text = (
        re.sub(r"\\(begin|end)\s*\{[bBpv]?(?:small)?matrix\*?\}", r"\\\1{pmatrix}", text)
        if "vmatrix" not in text
        else text
    )
    text = _REPEATING.sub(_as_fraction, text)
    text = re.sub(r"\{([^{}]*)\\over(?![a-z])([^{}]*)\}", r"\\frac{\1}{\2}", text)
    text = re.sub(r"^([^{}]*)\\over(?![a-z])([^{}]*)$", r"\\frac{\1}{\2}", text)
    text = re.sub(r"\{([^{}]*)\\choose(?![a-z])([^{}]*)\}", r"\\binom{\1}{\2}", text)
    text = _JOIN.sub(",", text)
    text = _relations(text)
    text = _braced_fractions(_powers(_plain_functions(text)))
    return _tidy(text)


def squash(text: str) -> str:
    """A normalised text without white space and needless braces, to compare spellings."""
    text = re.sub(r"\s+", "", text.replace("\\cdot", ""))
    return re.sub(r"\{(\w)\}", r"\1", text)


def _ascii(text: str) -> str:
    text = _RAISED_RUN.sub(lambda m: "^{" + "".join(_RAISED[c] for c in m[0]) + "}", text)
    text = _VULGAR.sub(lambda m: " " + unicodedata.normalize("NFKC", m[0]).replace("⁄", "/"), text)
    text = _ROOT.sub(lambda m: f"\\sqrt{{{m[1]}}}" if m[1] else "sqrt", text)
    return unicodedata.normalize("NFKC", text.translate(_SIGNS)).translate(_SIGNS)


def _strip_marks(text: str) -> str:
    """Markdown and mathematics marks around an answer: ``**42**``, ``$42$``, `` `42` ``, ``\\(42\\)``."""
    text = text.strip().strip("`").strip()
    while len(text) > 4 and text.startswith("**") and text.endswith("**"):
        text = text[2:-2].strip()
    if (len(text) > 2 and text[0] == text[-1] and text[0] in '*"') or (text[:1], text[-1:]) == ("“", "”"):
        text = text[1:-1]
    text = re.sub(r"^第\s*(?=\d)", "", text).replace("**", "^")
    text = re.sub(r"\\[()\[\]]", " ", text)
    text = text.replace("\\$", DOLLAR)
    if text.count("$") == 1:  # one sign is money, two are the ends of a formula
        text = re.sub(r"\$(?=\s*[\d.])", DOLLAR, text)
    return text.replace("$", "")


def _relations(text: str) -> str:
    text = re.sub(r"(?<![<>=])<=", r"\\le ", text)
    text = re.sub(r"(?<![<>=])>=", r"\\ge ", text)
    return text.replace("!=", "\\ne ").replace("==", "=").replace("~=", "\\approx ")


def _plain_functions(text: str) -> str:
    """``sqrt(2)`` and ``pi`` as a program writes them."""
    text = _PLAIN_INFINITY.sub(r"\\infty ", _outside_text(text, lambda part: _PLAIN_FUNCTION.sub(r"\\\1 ", part)))
    while (place := re.search(r"\\(sqrt|exp)\s*\(", text)) is not None:
        end = matching(text, place.end() - 1)
        if end < 0:
            break
        inner = text[place.end() : end]
        text = (
            text[: place.start()] + (f"\\sqrt{{{inner}}}" if place[1] == "sqrt" else f"e^{{{inner}}}") + text[end + 1 :]
        )
    return text


def _powers(text: str) -> str:
    """``x^(a+b)`` and ``x^10`` with their braces."""
    while (place := _EXPONENT.search(text)) is not None:
        end = matching(text, place.end() - 1)
        if end < 0:
            break
        text = f"{text[: place.start()]}^{{{text[place.end() : end]}}}{text[end + 1 :]}"
    return _BARE_EXPONENT.sub(r"^{\1}", text)


def _braced_fractions(text: str) -> str:
    """``\\frac12`` as TeX reads it: each argument without braces is one token, so ``\\frac138`` is a third of 8."""
    out, place = [], 0
    while (found := _FRACTION.search(text, place)) is not None:
        out.append(text[place : found.start()])
        arguments, place = [], found.end()
        for _ in range(2):
            argument, place = _argument(text, place)
            arguments.append(_braced_fractions(argument) if "\\frac" in argument and len(text) < 2000 else argument)
        out.append(f"\\frac{{{arguments[0]}}}{{{arguments[1]}}}")
    out.append(text[place:])
    return re.sub(r"\\sqrt\s*([0-9A-Za-z])", r"\\sqrt{\1}", "".join(out))


def _argument(text: str, place: int) -> tuple[str, int]:
    while place < len(text) and text[place] == " ":
        place += 1
    if place < len(text) and text[place] == "{":
        end = matching(text, place)
        return (text[place + 1 : end], end + 1) if end > 0 else (text[place:], len(text))
    token = _TOKEN.match(text, place)
    return (token[0], token.end()) if token else ("", len(text))


def matching(text: str, opening: int) -> int:
    """Place of the bracket that closes the one at ``opening`` (of its own kind); -1 when there is none."""
    left = text[opening]
    right = {"(": ")", "[": "]", "{": "}"}[left]
    depth, i = 0, opening
    while i < len(text):
        if text[i] == "\\" and i + 1 < len(text):
            i += 2
            continue
        depth += (text[i] == left) - (text[i] == right)
        if depth == 0:
            return i
        i += 1
    return -1


def _as_fraction(match: re.Match[str]) -> str:
    """A repeating decimal: ``0.1\\overline{6}`` is 15/90; ``0.\\dot{1}4\\dot{2}`` repeats 142."""
    whole, fixed, cycle = match[1] or "0", match[2], match[3] + (match[4] or "") + (match[5] or "")
    if len(whole + fixed + cycle) > _MAX_CYCLE:
        return match[0]
    below = int("9" * len(cycle) + "0" * len(fixed))
    above = int(whole + fixed + cycle) - int(whole + fixed)
    return f"\\frac{{{above}}}{{{below}}}"


def _outside_text(text: str, change: Callable[[str], str]) -> str:
    parts = re.split(r"(\\text\{[^{}]*\})", text)
    return "".join(part if part.startswith("\\text{") else change(part) for part in parts)


def _tidy(text: str) -> str:
    text = re.sub(r"\+\s*-", "-", text)
    text = re.sub(r"(\d)\.0+(?!\d)", r"\1", text)
    text = re.sub(r"\s+", " ", text).strip()
    return text.rstrip(" .,;:?").strip()
