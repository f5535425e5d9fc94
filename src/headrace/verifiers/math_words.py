"""Answers in words: names, yes and no, choices, days, dates and clock times, number words."""

from __future__ import annotations

import re
from fractions import Fraction

from headrace.verifiers.math_syntax import FUNCTIONS

_SAME_WORD = {
    **dict.fromkeys(("yes", "true", "correct", "是", "是的", "对", "正确", "√"), "yes"),
    **dict.fromkeys(("no", "false", "incorrect", "否", "不是", "不", "错", "错误", "×"), "no"),
    **dict.fromkeys(
        ("no solution", "no solutions", "no real solution", "no real solutions", "none", "无解"), "no solution"
    ),
    **dict.fromkeys(("does not exist", "dne", "undefined", "不存在"), "does not exist"),
    **dict.fromkeys(("infinitely many", "infinite", "infinitely many solutions", "无穷多", "无数"), "infinitely many"),
    **{
        "odd function": "odd",
        "even function": "even",
        "奇函数": "odd",
        "偶函数": "even",
        "奇数": "odd",
        "偶数": "even",
    },
}
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
for _i, _day in enumerate(_DAYS):
    _SAME_WORD.update({_day: _day, _day[:3]: _day})
    _SAME_WORD.update({f"{_prefix}{'一二三四五六日'[_i]}": _day for _prefix in ("星期", "周", "礼拜")})
_SAME_WORD.update({"星期天": "sunday", "周天": "sunday", "tues": "tuesday", "thurs": "thursday"})

_MONTHS = re.findall(r"\w+", "january february march april may june july august september october november december")
_SMALL = re.findall(
    r"\w+",
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen",
)
_TENS = re.findall(r"\w+", "twenty thirty forty fifty sixty seventy eighty ninety")
_NUMBER_WORDS = {word: i for i, word in enumerate(_SMALL)} | {word: 20 + 10 * i for i, word in enumerate(_TENS)}
_CHINESE_DIGITS = {c: i for i, c in enumerate("零一二三四五六七八九")} | {"两": 2, "〇": 0}
_CHINESE_TENS = {"十": 10, "百": 100, "千": 1000}
_MAGNITUDES = {
    **{"hundred": 2, "thousand": 3, "million": 6, "billion": 9, "trillion": 12},
    **{"千": 3, "万": 4, "百万": 6, "千万": 7, "亿": 8},
}
_MAGNITUDE = re.compile(
    r"^(?P<value>-?[\d.]+)\s*(?:\\text\{\s*)?(?P<word>"
    + "|".join(sorted(_MAGNITUDES, key=len, reverse=True))
    + r")s?(?:\s*\})?$",
    re.IGNORECASE,
)
_CHOICE = re.compile(
    r"^(?:\\text\{)?\s*(?:(?:option|choice|answer|选项|选)\s*:?\s*)?(?:\\text\{)?(?:\((?P<a>[A-J])\)|(?P<b>[A-J])(?P<end>[).:]|(?=\}|$)))\s*\}?(?P<rest>.*)$",
    re.IGNORECASE | re.DOTALL,
)
_TIME = re.compile(
    r"^(?P<h>\d{1,2}):(?P<m>[0-5]\d)(?::(?P<s>[0-5]\d))?\s*(?:\\text\{)?\s*(?P<half>[ap]\.?\s?m\.?)?\s*\}?$",
    re.IGNORECASE,
)
_HOUR = re.compile(r"^(?P<h>\d{1,2})\s*(?:\\text\{)?\s*(?P<half>[ap]\.?\s?m\.?)\s*\}?$", re.IGNORECASE)
_ISO_DATE = re.compile(r"^(\d{4})[-/年](\d{1,2})[-/月](\d{1,2})日?$")
_TEXT = re.compile(r"\\text\{([^{}]*)\}")


def choice(text: str) -> tuple[str, str] | None:
    """(letter, what follows it) of ``B``, ``(b)``, ``\\text{(B) } 5``, ``B. 5``; None when it is not a choice."""
    found = _CHOICE.match(re.sub(r"\\mathbf\{([A-Za-z])\}", r"\1", text.strip()))
    if found is None:
        return None
    rest = found["rest"].strip(" {}.")
    if found["b"] and found["end"] == ":" and re.match(r"\d", rest):  # A:1 is a ratio
        return None
    return (found["a"] or found["b"]).upper(), rest


def words(text: str) -> str | None:
    """The bare words of an answer that is a text, in one spelling; None for formulas.

    Letters alone may be symbols (``xy``): they count as words when they are written as text or are four or more.
    """
    upright = "\\text{" in text
    bare = _TEXT.sub(r" \1 ", text)
    bare = re.sub(r"\\[ ,;!]|[\s{}\"“”‘’`*]+", " ", bare).strip(" .,;:!?()（）").casefold()
    bare = re.sub(r"^(?:the|a|an)\s+", "", re.sub(r"\s+", " ", bare))
    if bare in _SAME_WORD:
        return _SAME_WORD[bare]
    answered = re.match(r"(yes|no|true|false)[,.;:]", bare)
    if answered:
        return _SAME_WORD[answered[1]]
    if not re.search(r"[^\W\d_]", bare) or re.search(r"[\\^=<>+*/_|]", bare):
        return None
    if re.search(r"\d", bare) and not re.search(r"[^\W\d_]{3,}", bare):
        return None
    runs = [run for run in re.findall(r"[^\W\d_]+", bare) if run not in FUNCTIONS]
    long_enough = any(len(run) >= (1 if re.search(r"[\u4e00-\u9fff]", run) else 4) for run in runs)
    return bare if upright or long_enough else None


def spelled_number(text: str) -> str | None:
    """Digits for ``twenty-one``, ``三十五``, ``5 million``, ``1.2万``; None for anything else."""
    found = _MAGNITUDE.match(text.strip())
    if found is not None:
        try:
            return str(Fraction(found["value"]) * 10 ** _MAGNITUDES[found["word"].lower()])
        except ValueError:
            return None
    bare = _TEXT.sub(r"\1", text).strip().casefold()
    parts = re.split(r"[\s-]+", bare)
    if len(parts) <= 2 and all(part in _NUMBER_WORDS for part in parts):
        values = [_NUMBER_WORDS[part] for part in parts]
        if len(values) == 1 or (values[0] >= 20 and values[1] < 10):
            return str(sum(values))
    return _chinese_number(bare)


def _chinese_number(text: str) -> str | None:
    if not text or not all(c in _CHINESE_DIGITS or c in _CHINESE_TENS for c in text):
        return None
    total, digit = 0, 0
    for c in text:
        if c in _CHINESE_DIGITS:
            digit = _CHINESE_DIGITS[c]
        else:
            total += (digit or 1) * _CHINESE_TENS[c]
            digit = 0
    return str(total + digit)


def clock(text: str) -> tuple[int, int, int, str] | None:
    """(hour, minute, second, '' | 'am' | 'pm') of a clock time."""
    found = _TIME.match(text.strip())
    minute, second = (found["m"], found["s"]) if found else ("0", None)
    found = found or _HOUR.match(text.strip())
    if found is None or int(found["h"]) > 24:
        return None
    return int(found["h"]), int(minute), int(second or 0), re.sub(r"[.\s]", "", (found["half"] or "").lower())


def same_clock(answer: tuple[int, int, int, str], gold: tuple[int, int, int, str]) -> bool:
    """2:00 pm is 14:00; where one side does not say which half of the day, the digits decide."""
    if answer[3] and gold[3]:
        return _of_day(answer) == _of_day(gold)
    if answer[:3] == gold[:3]:
        return True
    return bool(answer[3] or gold[3]) and _of_day(answer) == _of_day(gold)


def _of_day(time: tuple[int, int, int, str]) -> tuple[int, int, int]:
    hour = time[0] % 12 + 12 * (time[3] == "pm") if time[3] else time[0]
    return hour, time[1], time[2]


def date(text: str) -> tuple[int, int, int] | None:
    """(year or 0, month, day) of ``March 5, 2020``, ``5th of March``, ``2020-03-05``, ``3月5日``."""
    plain = _TEXT.sub(r" \1 ", text).strip().casefold()
    found = _ISO_DATE.match(plain)
    if found:
        return int(found[1]), int(found[2]), int(found[3])
    found = re.match(r"^(\d{1,2})月(\d{1,2})[日号]$", plain)
    if found:
        return 0, int(found[1]), int(found[2])
    parts = [
        part
        for part in re.split(r"[\s,.]+", re.sub(r"(?<=\d)(?:st|nd|rd|th)\b", "", plain))
        if part not in ("", "of", "the")
    ]
    months = [
        i
        for part in parts
        for i, month in enumerate(_MONTHS, 1)
        if part == month or (len(part) >= 3 and part == month[:3])
    ]
    numbers = [int(part) for part in parts if part.isdigit() and len(part) < 5]
    if len(months) != 1 or len(parts) != 1 + len(numbers) or not 1 <= len(numbers) <= 2:
        return None
    years = [value for value in numbers if value > 31]
    days = [value for value in numbers if value <= 31]
    return (years[0] if years else 0, months[0], days[0]) if len(days) == 1 and len(years) <= 1 else None


def same_date(answer: tuple[int, int, int], gold: tuple[int, int, int]) -> bool:
    """Month and day agree, and the year where both give one."""
    return answer[1:] == gold[1:] and (answer[0] == gold[0] or not (answer[0] and gold[0]))
