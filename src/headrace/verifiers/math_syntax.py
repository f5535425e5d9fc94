"""A small reader for LaTeX formulas: a tree out, nothing computed and nothing ever run.

Recursive descent over tokens, in linear time. What is not understood raises ``Unreadable`` instead of being dropped: a
reader that stops early would grade the beginning of an answer.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache

from headrace.verifiers.math_node import Node, TooDeep, Unreadable, negative, number, tokens_of

MAX_DEPTH = 60
MAX_DIGITS = 4000

FUNCTIONS = frozenset(
    [
        "sin",
        "cos",
        "tan",
        "cot",
        "sec",
        "csc",
        "arcsin",
        "arccos",
        "arctan",
        "sinh",
        "cosh",
        "tanh",
        "ln",
        "log",
        "exp",
        "max",
        "min",
        "gcd",
        "lcm",
        "Re",
        "Im",
        "arg",
        "det",
        "Gamma",
    ]
)
_CONSTANTS = {"pi": "pi", "infty": "infty", "imath": "i"}
_LETTER_FUNCTIONS = frozenset("fghFGH")
_GREEK = re.compile(
    "alpha|beta|gamma|delta|epsilon|varepsilon|zeta|eta|theta|vartheta|iota|kappa|lambda|mu|nu|xi|rho|varrho|sigma|tau"
    "|upsilon|phi|varphi|chi|psi|omega|Gamma|Delta|Theta|Lambda|Xi|Pi|Sigma|Phi|Psi|Omega|ell|hbar|aleph"
)
_ACCENTS = frozenset(
    ["overline", "bar", "vec", "hat", "tilde", "overrightarrow", "widehat", "widetilde", "mathbb", "mathcal", "mathbf"]
)


@lru_cache(maxsize=4096)
def read(text: str) -> Node:
    """The tree of a normalised formula. Raises ``Unreadable`` (``TooDeep`` for nesting)."""
    reader = _Reader(tokens_of(text))
    node = reader.sum(0)
    if reader.kind != "end":
        raise Unreadable(f"'{reader.word}' is not expected")
    return node


class _Reader:
    def __init__(self, tokens: list[tuple[str, str]]) -> None:
        self._bound: set[str] = set()  # running variables of sums: an i among them is no imaginary unit
        self._tokens, self._place = [*tokens, ("end", "")], 0

    @property
    def kind(self) -> str:
        return self._tokens[self._place][0]

    @property
    def word(self) -> str:
        return self._tokens[self._place][1]

    def at(self, kind: str, *words: str) -> bool:
        found, word = self._tokens[self._place]
        return found == kind and (not words or word in words)

    def take(self) -> str:
        self._place += 1
        return self._tokens[self._place - 1][1]

    def expect(self, kind: str, word: str) -> None:
        if not self.at(kind, word):
            raise Unreadable(f"'{word}' is missing")
        self.take()

    def sum(self, depth: int) -> Node:
        if depth > MAX_DEPTH:
            raise TooDeep("nested too deeply")
        terms = [self.product(depth)]
        while self.at("sign", "+", "-"):
            minus = self.take() == "-"
            term = self.product(depth)
            terms.append(negative(term) if minus else term)
        return terms[0] if len(terms) == 1 else Node("add", tuple(terms))

    def product(self, depth: int) -> Node:
        factors = [self.signed(depth)]
        while True:
            if self.at("command", "cdot") or self.at("sign", "*"):
                self.take()
                factors.append(self.signed(depth))
            elif self.at("sign", "/"):
                self.take()
                factors.append(Node("pow", (self.signed(depth), number(-1))))
            elif self.starts_factor():
                factors.append(self._beside(factors[-1], depth))
            else:
                break
        return factors.pop() if len(factors) == 1 else Node("mul", tuple(factors))

    def signed(self, depth: int) -> Node:
        minus = False
        while self.at("sign", "+", "-"):
            minus ^= self.take() == "-"
        node = self.power(depth)
        return negative(node) if minus else node

    def starts_factor(self) -> bool:
        if self.kind in ("number", "letter", "text"):
            return True
        if self.kind == "command":
            return self.word not in (
                "cdot",
                "le",
                "ge",
                "ne",
                "cup",
                "cap",
                "in",
                "approx",
                "pm",
                "mp",
                "rfloor",
                "rceil",
            )
        return self.at("sign", "(", "{", "[")

    def _beside(self, before: Node, depth: int) -> Node:
        """A factor without a product sign. Two numbers in a row are none: ``1 2`` is not 2."""
        if self.kind == "number" and before.op == "num":
            raise Unreadable("two numbers in a row")
        return self.power(depth)

    def power(self, depth: int) -> Node:
        base = self.atom(depth)
        while True:
            if self.at("sign", "!"):
                count = 0
                while self.at("sign", "!"):
                    self.take()
                    count += 1
                for _ in range(count // 2):
                    base = Node("fact2", (base,))
                base = Node("fact", (base,)) if count % 2 else base
            elif self.at("sign", "%"):
                self.take()
                base = Node("mul", (base, number(Fraction(1, 100))))
            elif self.at("sign", "^"):
                self.take()
                base = self._raised(base, depth)
            else:
                return base

    def _raised(self, base: Node, depth: int) -> Node:
        if self._degrees():
            return Node("mul", (base, Node("const", (), "degree")))
        exponent = self.argument(depth)
        if base.op == "pow" and base.value == "^":
            raise Unreadable("two exponents")
        return Node("pow", (base, exponent), "^")

    def _degrees(self) -> bool:
        ahead = self._tokens[self._place : self._place + 3]
        if ahead[:1] == [("command", "circ")]:
            self._place += 1
            return True
        if ahead == [("sign", "{"), ("command", "circ"), ("sign", "}")]:
            self._place += 3
            return True
        return False

    def argument(self, depth: int) -> Node:
        """``{...}`` or one token."""
        if self.at("sign", "{"):
            return self.group("{", "}", depth)
        if self.at("sign", "-", "+"):
            return self.signed(depth + 1)
        return self.atom(depth + 1)

    def group(self, left: str, right: str, depth: int) -> Node:
        self.expect("sign", left)
        node = self.sum(depth + 1)
        self.expect("sign", right)
        return node

    def atom(self, depth: int) -> Node:
        if depth > MAX_DEPTH:
            raise TooDeep("nested too deeply")
        kind, word = self._tokens[self._place]
        if kind == "number":
            return self._number()
        if kind == "letter":
            return self._letter(depth)
        if kind == "text":
            self.take()
            return self._named(word.strip())
        if kind == "command":
            return self._command(depth)
        for left, right in (("(", ")"), ("{", "}"), ("[", "]")):
            if self.at("sign", left):
                return self.group(left, right, depth)
        if self.at("sign", "|"):
            return self._absolute(depth)
        raise Unreadable(f"'{word}' is not expected" if word else "it ends too early")

    def _number(self) -> Node:
        word = self.take()
        if (
            len(word) > MAX_DIGITS or abs(int(re.split("[eE]", word)[1])) > MAX_DIGITS
            if "e" in word.lower()
            else len(word) > MAX_DIGITS
        ):
            raise Unreadable("a number with too many digits")
        value = Fraction(word)
        if self.at("number") and value.denominator == 1 and self._tokens[self._place + 1] == ("sign", "/"):
            return self._mixed(value, slash=True)
        if self.at("command", "frac") and "." not in word and self._plain_fraction():
            return self._mixed(value, slash=False)
        return number(value)

    def _plain_fraction(self) -> bool:
        """Whether ``\\frac`` with two whole numbers comes: behind a whole number that is a mixed number."""
        kinds = [token[0] for token in self._tokens[self._place + 1 : self._place + 7]]
        digits = [self._tokens[self._place + i][1] for i in (2, 5) if self._place + i < len(self._tokens)]
        return kinds == ["sign", "number", "sign", "sign", "number", "sign"] and all(d.isdigit() for d in digits)

    def _mixed(self, whole: Fraction, *, slash: bool) -> Node:
        if slash:
            above, _, below = self.take(), self.take(), self.word
            if not (above.isdigit() and below.isdigit() and self.kind == "number"):
                raise Unreadable("two numbers in a row")
            self.take()
        else:
            self.take()
            above, below = (self._braced_number() for _ in range(2))
        part = Node("mul", (number(Fraction(above)), Node("pow", (number(Fraction(below)), number(-1)))))
        return Node("add", (number(whole), part))

    def _braced_number(self) -> str:
        self.take()
        word = self.take()
        self.take()
        return word

    def _letter(self, depth: int) -> Node:
        name = self.take()
        subscript = self._subscript()
        if name in self._bound and not subscript:
            return Node("sym", (), name)
        if name == "C" and self.at("sign", "(") and self._has_two_arguments():
            return Node("binom", self._arguments(depth))
        if name == "e" and not subscript:
            return Node("const", (), "e")
        if name[0] in _LETTER_FUNCTIONS and self.at("sign", "("):
            return Node("call", self._arguments(depth), name + subscript)
        return Node("const", (), "i") if name == "i" and not subscript else Node("sym", (), name + subscript)

    def _has_two_arguments(self) -> bool:
        """Whether the bracket that opens here holds one comma, as that of ``C(5, 2)`` does. Nothing is read."""
        depth = commas = 0
        for place in range(self._place, len(self._tokens)):
            word = self._tokens[place][1]
            depth += (word in "([{") - (word in ")]}") if len(word) == 1 else 0
            commas += depth == 1 and word == ","
            if depth == 0:
                break
        return commas == 1

    def _named(self, word: str) -> Node:
        subscript = self._subscript()
        if word in ("e", "i") and not subscript:
            return Node("const", (), word)
        if not word:
            raise Unreadable("an empty text")
        return Node("sym", (), word + subscript)

    def _subscript(self) -> str:
        if not self.at("sign", "_"):
            return ""
        self.take()
        if not self.at("sign", "{"):
            return "_" + self.take()
        self.take()
        depth, words = 1, []
        while depth:
            if self.kind == "end":
                raise Unreadable("'}' is missing")
            depth += self.at("sign", "{") - self.at("sign", "}")
            words.append(self.take())
        return "_" + "".join(words[:-1])

    def _arguments(self, depth: int) -> tuple[Node, ...]:
        self.expect("sign", "(")
        arguments = [self.sum(depth + 1)]
        while self.at("sign", ","):
            self.take()
            arguments.append(self.sum(depth + 1))
        self.expect("sign", ")")
        return tuple(arguments)

    def _absolute(self, depth: int) -> Node:
        self.expect("sign", "|")
        node = self.sum(depth + 1)
        self.expect("sign", "|")
        return Node("abs", (node,))

    def _command(self, depth: int) -> Node:
        word = self.take()
        if word == "frac":
            above, below = self.argument(depth + 1), self.argument(depth + 1)
            return Node("mul", (above, Node("pow", (below, number(-1)))))
        if word == "sqrt":
            return self._root(depth)
        if word == "binom":
            return Node("binom", (self.argument(depth + 1), self.argument(depth + 1)))
        if word in ("lfloor", "lceil"):
            node = self.sum(depth + 1)
            self.expect("command", "rfloor" if word == "lfloor" else "rceil")
            return Node("floor" if word == "lfloor" else "ceil", (node,))
        if word in ("sum", "prod"):
            return self._series(word, depth)
        if word in FUNCTIONS and not (word == "Gamma" and not self.at("sign", "(")):
            return self._function(word, depth)
        if word in _CONSTANTS:
            return Node("const", (), _CONSTANTS[word])
        if word in _ACCENTS and self.at("sign", "{"):
            self.take()
            inner = []
            while not self.at("sign", "}"):
                if self.kind == "end":
                    raise Unreadable("'}' is missing")
                inner.append(self.take())
            self.take()
            return Node("sym", (), f"{word}({''.join(inner)}){self._subscript()}")
        if _GREEK.fullmatch(word):
            return Node("sym", (), "\\" + word + self._subscript())
        raise Unreadable(f"'\\{word}' is not known")

    def _root(self, depth: int) -> Node:
        if not self.at("sign", "["):
            return Node("root", (self.argument(depth + 1), number(2)))
        degree = self.group("[", "]", depth)
        return Node("root", (self.argument(depth + 1), degree))

    def _function(self, name: str, depth: int) -> Node:
        base = exponent = None
        while self.at("sign", "_", "^"):
            if self.take() == "_":
                base = self.argument(depth + 1)
            else:
                exponent = self.argument(depth + 1)
        arguments = self._function_arguments(name, depth)
        if name == "log" and base is not None:
            arguments = (*arguments, base)
        if exponent is not None and exponent == number(-1) and name in ("sin", "cos", "tan"):
            return Node("call", arguments, f"\\arc{name}")
        node = Node("call", arguments, "\\" + name)
        return node if exponent is None else Node("pow", (node, exponent))

    def _function_arguments(self, name: str, depth: int) -> tuple[Node, ...]:
        if self.at("sign", "("):
            arguments = self._arguments(depth)
            return arguments
        if self.at("sign", "{"):
            return (self.group("{", "}", depth),)
        factors = [self.signed(depth + 1)]
        while (
            self.starts_factor()
            and not (self.kind == "command" and self.word in FUNCTIONS)
            and not self.at("sign", "(")
        ):
            factors.append(self._beside(factors[-1], depth + 1))
        return (factors[0] if len(factors) == 1 else Node("mul", tuple(factors)),)

    def _series(self, word: str, depth: int) -> Node:
        self.expect("sign", "_")
        self.expect("sign", "{")
        variable = self.take()
        self.expect("sign", "=")
        low = self.sum(depth + 1)
        self.expect("sign", "}")
        self.expect("sign", "^")
        high = self.argument(depth + 1)
        self._bound.add(variable)
        body = self.product(depth + 1)
        self._bound.discard(variable)
        return Node(word, (low, high, body), variable)
