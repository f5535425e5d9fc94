"""Units, money and percent signs around a value."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

from headrace.verifiers.math_text import DOLLAR

Dimension = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Unit:
    """``size``: how many of the base units one is. Unknown words have no dimension, and never contradict another."""

    name: str = ""
    dimension: Dimension = ()
    size: Fraction = Fraction(1)

    @property
    def known(self) -> bool:
        return bool(self.dimension)


@dataclass(frozen=True, slots=True)
class Measured:
    """A value as written, its unit, and whether it is a percentage."""

    value: str
    unit: Unit = Unit()
    percent: bool = False


def _table() -> dict[str, Unit]:
    table: dict[str, Unit] = {}

    def add(dimension: Dimension, *entries: tuple[str, str]) -> None:
        for names, size in entries:
            first, *_ = names.split()
            for name in names.split():
                table[name] = Unit(first, dimension, Fraction(size))

    add(
        (("length", 1),),
        ("mm millimeter millimetre 毫米", "1/1000"),
        ("cm centimeter centimetre 厘米", "1/100"),
        ("dm decimeter decimetre 分米", "1/10"),
        ("m meter metre 米", "1"),
        ("km kilometer kilometre 千米 公里", "1000"),
        ("in inch inches", "254/10000"),
        ("ft foot feet", "3048/10000"),
        ("yd yard", "9144/10000"),
        ("mi mile", "1609344/1000"),
    )
    add(
        (("mass", 1),),
        ("mg milligram 毫克", "1/1000000"),
        ("g gram 克", "1/1000"),
        ("kg kilogram 千克 公斤", "1"),
        ("tonne 吨", "1000"),
        ("lb lbs", "45359237/100000000"),
        ("oz ounce", "45359237/1600000000"),
    )
    add(
        (("time", 1),),
        ("ms millisecond", "1/1000"),
        ("s sec second 秒", "1"),
        ("min minute 分钟", "60"),
        ("h hr hour 小时", "3600"),
        ("day 天 日", "86400"),
        ("week 周 星期", "604800"),
    )
    add((("month", 1),), ("month 个月", "1"), ("year yr 年", "12"))
    add((("length", 3),), ("L l liter litre 升", "1/1000"), ("mL ml milliliter millilitre 毫升", "1/1000000"))
    add((("length", 1), ("time", -1)), ("mph", "1397/3125"), ("kph kmh", "5/18"))
    add((("dollar", 1),), ("dollar USD usd 美元", "1"), ("cent ¢ 美分", "1/100"))
    add((("euro", 1),), ("euro EUR €", "1"))
    add((("pound sterling", 1),), ("£ GBP", "1"))
    add((("yuan", 1),), ("yuan RMB rmb CNY ¥ 元 块", "1"), ("jiao 角", "1/10"))
    add((("rupee", 1),), ("rupee ₹ Rs", "1"))
    add((("angle", 1),), ("degree deg 度", "1"))
    add((("radian", 1),), ("rad radian 弧度", "1"))
    add((("energy", 1),), ("J joule 焦耳", "1"), ("kJ", "1000"))
    add((("force", 1),), ("N newton 牛", "1"))
    add((("power", 1),), ("W watt 瓦", "1"), ("kW", "1000"))
    return table


_UNITS = _table()
_SINGLE = frozenset(["m", "g", "s", "h", "L", "l", "J", "N", "W"])
_MONEY = re.compile(rf"^\s*(-?)\s*(?:([{DOLLAR}€£¥₹])|(?:\\text\{{\s*)?(?:US|USD|Rs\.?|RMB)\}}?)\s*(?=[-\d.\\])")
_MONEY_BEHIND = re.compile(rf"([{DOLLAR}€£¥₹¢])$")
_PERCENT = re.compile(r"\s*(?:\\?%|(?:\\text\{)?\s*(?:percent(?:age)?|pct|per cent)\s*(?:points?)?\}?)$", re.IGNORECASE)
_DEGREES = re.compile(r"\s*(?:\^\s*\{?\s*\\circ\s*\}?)\s*(C|F|\\text\{\s*[CF]\s*\})?$")
_TAIL = re.compile(
    r"(?<=[\d.})\]a-zA-Z!\s])\s*(?P<unit>\\text\{[^{}]*\}(?:\\text\{[^{}]*\}|[ /]|\^\s*\{?-?\d\}?"
    r"|\\cdot(?=\s*\\text)|\bper\b)*)$"
)
_WORDS = re.compile(
    r"(?<=[\d})])\s*(?P<unit>[A-Za-z]{2,}(?:[ /][A-Za-z]+)*\.?(?:\^\{\d\})?|[A-Za-z]/[A-Za-z]+(?:\^\{\d\})?)$"
)
_BARE_SINGLE = re.compile(r"(?<=[\d}])\s*(?P<unit>[A-Za-z](?:\^\{\d\})?)$")
_CHINESE = re.compile(r"(?<=[\d})])\s*(?P<unit>[\u4e00-\u9fff]{1,6})$")
_ANGLE_FUNCTION = re.compile(r"\\(?:sin|cos|tan|cot|sec|csc)(?![A-Za-z])")
_NUMBER = re.compile(r"-?[\d.,]+(?:\\cdot 10\^\{-?\d+\})?|-?\\frac\{\d+\}\{\d+\}")
_FUNCTION_WORD = re.compile(r"(?:sqrt|sin|cos|tan|log|ln|pi|mod|and|or|if|for|where|choose)\b")


def measured(text: str, *, single_letters: bool = False) -> Measured:
    """A normalised text taken apart. ``single_letters``: a bare ``m`` behind a number is metres, not a variable."""
    text = text.strip()
    found = _PERCENT.search(text)
    if found and found.start() > 0:
        return Measured(text[: found.start()].strip(), percent=True)
    found = re.match(r"百分之\s*", text)
    if found:
        return Measured(text[found.end() :].strip(), percent=True)
    found = _MONEY.match(text)
    if found:
        unit = _UNITS.get({DOLLAR: "dollar", None: "dollar"}.get(found[2], found[2] or ""), Unit())
        return Measured((found[1] + measured(text[found.end() :]).value).strip(), unit)
    found = _MONEY_BEHIND.search(text)
    if found and found.start() > 0:
        return Measured(text[: found.start()].strip(), _UNITS["dollar" if found[1] == DOLLAR else found[1]])
    return _with_unit(text, single_letters=single_letters)


def _with_unit(text: str, *, single_letters: bool) -> Measured:
    found = _DEGREES.search(text)
    if found and found.start() > 0 and not _ANGLE_FUNCTION.search(text):
        scale = re.sub(r"\\text|[{}\s]", "", found[1] or "")
        unit = Unit(f"degree {scale}", ((f"temperature {scale}", 1),)) if scale else _UNITS["degree"]
        return Measured(text[: found.start()].strip(), unit)
    patterns = (_TAIL, _CHINESE, _WORDS, *((_BARE_SINGLE,) if single_letters else ()))
    for pattern in patterns:
        found = pattern.search(text)
        if found is None or found.start("unit") == 0 or not found["unit"].strip():
            continue
        parsed = parse_unit(found["unit"])
        if parsed is None:
            continue
        unit = parsed
        if pattern is _BARE_SINGLE and not (unit.known and _NUMBER.fullmatch(text[: found.start("unit")].strip())):
            continue
        if pattern is _WORDS and not unit.known and not _is_word(text, found.start("unit"), found["unit"]):
            continue
        return Measured(text[: found.start("unit")].strip(), unit)
    return Measured(text)


def _is_word(text: str, start: int, word: str) -> bool:
    """Whether unknown letters behind a number are a word (``12 apples``) and not symbols (``2ab``)."""
    return text[start - 1] == " " and len(word) >= 3 and _FUNCTION_WORD.match(word) is None


def parse_unit(text: str) -> Unit | None:
    """``\\text{ cm}^{2}``, ``square metres``, ``\\text{km}/\\text{h}``; an unknown word is a unit without dimension.

    None for what is no unit at all, such as an exponent alone.
    """
    plain = (
        re.sub(r"\\text\{([^{}]*)\}", r"\1", text)
        .replace("\\cdot", " ")
        .replace("平方", "square ")
        .replace("立方", "cubic ")
    )
    plain = re.sub(r"\s+", " ", plain.replace(" per ", "/").replace("每", "/")).strip(" .")
    if not re.search(r"[^\W\d_]", plain):
        return None
    dimension: dict[str, int] = {}
    size = Fraction(1)
    for place, part in enumerate(plain.split("/")):
        one = _simple(part.strip())
        if one is None:
            return Unit(plain.casefold())
        for name, power in one.dimension:
            dimension[name] = dimension.get(name, 0) + (power if place == 0 else -power)
        size = size * one.size if place == 0 else size / one.size
    return Unit(plain, tuple(sorted(dimension.items())), size)


def _simple(text: str) -> Unit | None:
    found = re.fullmatch(
        r"(?:(square|sq\.?|cubic|cu\.?) ?)?([^\s^\d]+?)(?:\^?\{?(-?\d)\}?)?(?: (squared|cubed))?", text
    )
    if found is None:
        return None
    name = found[2].rstrip(".")
    unit = _UNITS.get(name) or _UNITS.get(name.casefold()) or _UNITS.get(name.casefold().removesuffix("s"))
    if unit is None:
        return None
    power = int(found[3] or 1)
    power *= {"s": 2, "c": 3}.get((found[1] or " ")[0], 1) * {"s": 2, "c": 3}.get((found[4] or " ")[0], 1)
    return Unit(unit.name, tuple((base, each * power) for base, each in unit.dimension), unit.size**power)


def factor(answer: Unit, gold: Unit) -> Fraction | None:
    """What the answer's number must be multiplied by to be in the gold's unit; None when the units contradict."""
    if not answer.known or not gold.known:
        return Fraction(1)
    if answer.dimension != gold.dimension:
        return None
    return answer.size / gold.size
