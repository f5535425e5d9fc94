"""Which answers mean the same as a gold, kind by kind, in both directions."""

import pytest

from headrace.verifiers.math_compare import difference
from headrace.verifiers.math_options import MathOptions

KINDS = r"""
# numbers
1,000 == 1000
1 000 == 1000
1{,}000 == 1000
1\,000\,000 == 1000000
1,000.5 == 1000.5
1,23 != 123
1.2e3 == 1200
1.2 \times 10^{3} == 1200
1.2 \times 10^3 == 1200
1.2 × 10³ == 1200
1.2E-3 == 0.0012
2 \cdot 10^{-3} == 0.002
10^{-9} != 0
9007199254740993 == 9007199254740993
9007199254740993.0 == 9007199254740993
7\frac{2}{5} == 37/5
7 \frac{2}{5} == 7.4
7 2/5 == 7.4
-7\frac{2}{5} == -7.4
7½ == 7.5
½ == 0.5
\frac12 == 0.5
\frac{1}{2} == 1/2
\frac1{13} == 1/13
-\frac{1}{2} == \frac{-1}{2}
\frac{1}{-2} == -0.5
0.\overline{3} == \frac{1}{3}
0.1\overline{6} == 1/6
0.333333 == 1/3
0.3333 != 1/3
0.33 != 1/3
0.666667 == 2/3
1/3 == 0.333333
3.14159265 == \pi
3.14 != \pi
1.4142135623730951 == \sqrt{2}
# percent
35\% == 0.35
35\% == 35
0.35 == 35\%
35 == 35\%
3500 != 35\%
0.35\% != 35\%
35 != 0.35
35 percent == 35\%
35\text{ percent} == 0.35
百分之35 == 35\%
百分之三十五 == 35\%
# money
\$1.50 == 1.5
\$1,000 == 1000
1000 dollars == \$1000
1000 美元 == \$1000
150 \text{ cents} == \$1.50
£5 != \$5
€5 == 5
5\$ == 5
5元 == 5
# units
18 cm == 18
18cm == 18
18 \text{ cm}^2 == 18 \text{ cm}^2
18 cm^2 == 18\text{ cm}^2
18\,\mathrm{cm}^2 == 18\text{ cm}^2
18 square centimeters == 18\text{ cm}^2
18 \text{ sq. cm} == 18\text{ cm}^2
18 cm² == 18\text{ cm}^2
18 \text{ m}^2 != 18\text{ cm}^2
18\text{ cm} != 18\text{ cm}^2
18 m != 18 cm
1 \text{ m} == 100 \text{ cm}
100 cm == 1\text{ m}
18 平方厘米 == 18\text{ cm}^2
5\text{ km/h} == 5\text{ km}/\text{h}
60 km/h == 60
60 mph != 60\text{ km/h}
2\text{ hours} == 120\text{ minutes}
12 apples == 12
12\text{ apples} == 12
3 人 == 3
# angles
90^\circ == 90
90° == 90^{\circ}
90 degrees == 90^\circ
90度 == 90^\circ
25^\circ C == 25
# tuples and lists
(1,2) == (1, 2)
(1,2) != (2,1)
(1,2) != [1,2]
[1,2) == [1, 2)
[1,2) != [1,2]
(1,2) == (\frac{2}{2}, 2.0)
(1,2,3) == (1,2,3)
[1,2,3] == (1,2,3)
\langle 1,2,3\rangle == (1,2,3)
1,2,3 == 3,2,1
1, 2 and 3 == 1,2,3
1, 2, and 3 == 1,2,3
1 and 2 == 2, 1
1 or 2 == 1,2
1 \text{ or } 2 == 2,1
1或2 == 1,2
1和2 == 1,2
1、2、3 == 1,2,3
1；2 == 1,2
1,2 != 1,2,3
1,2,3 != 1,2
# sets and intervals
\{1,2\} == \{2,1\}
\{1,2\} != (1,2)
\{1,2\} == 1,2
{1,2} == 1,2
\{(1,2),(2,1)\} == (2,1),(1,2)
(1,2),(2,1) == (2,1),(1,2)
(1,2),(2,1) != (1,2),(2,2)
\{1, 1, 2\} == \{1,2\}
\emptyset == \varnothing
\{\} == \emptyset
\text{no solution} == \emptyset
\{5\} == 5
(-\infty, 4) \cup (4, \infty) == (-\infty,4)\cup(4,\infty)
(-\infty,4)U(4,\infty) == (-\infty,4)\cup(4,\infty)
(4,\infty)\cup(-\infty,4) == (-\infty,4)\cup(4,\infty)
x \ne 4 == (-\infty,4)\cup(4,\infty)
\mathbb{R}\setminus\{4\} == (-\infty,4)\cup(4,\infty)
x < 4 or x > 4 == (-\infty,4)\cup(4,\infty)
(-inf, 4) == (-\infty,4)
(-\infty, 4] != (-\infty,4)
# inequalities
x < 4 == (-\infty,4)
x \le 4 == (-\infty,4]
x≤4 == (-\infty,4]
x <= 4 == (-\infty,4]
4 > x == x < 4
x>4 != x<4
x \geq 4 != x > 4
-x > -4 == x < 4
2 < x < 5 == (2,5)
5 > x > 2 == 2<x<5
2 \le x < 5 != (2,5)
x\in(2,5) == 2<x<5
x \in [2,5] == [2,5]
|x| < 2 == (-2,2)
\{x | 2<x<5\} == (2,5)
\{x \in \mathbb{R} : x > 2\} == (2,\infty)
y > 5 != x > 5
# equations
x = 2 == 2
x=2 == x = 2
2 = x == 2
y=2 != x=2
x=2 or x=3 == 2,3
x = 2, x = 3 == 2, 3
x=2, 3 == 2,3
x_1=2, x_2=3 == 2,3
x=2,y=3 == (2,3)
y=3, x=2 == x=2,y=3
x=3,y=2 != x=2,y=3
x=2,y=3 != 3,2
(x,y)=(2,3) == (2,3)
y = 2x+1 == 2x - y + 1 = 0
y=2x+1 == y=1+2x
y=2x+1 == 2x+1
2x+1 == y=2x+1
y=2x+1 != y=2x-1
y=2x+1 != y = x+1
f(x)=x^2 == f(t)=t^2
f(x)=x^2 == x^2
f(x)=x^2 != f(x)=x
f(x)=x^2 == y=x^2
a+3z=0 != 0
0 != a+3z=0
xy=1 == y=\frac{1}{x}
x^2+y^2=4 == \frac{x^2}{4}+\frac{y^2}{4}=1
x^2+y^2=4 != x^2+y^2=2
x = 5+6 = 11 == 11
x = 1/3 \approx 0.33 == 1/3
x \approx 11 == 11
# plus or minus
\pm 3 == 3, -3
\pm3 == \pm 3
3 != \pm 3
\pm 3 != 3
1\pm\sqrt{2} == 1+\sqrt{2}, 1-\sqrt{2}
x=\pm 2 == 2,-2
x = \pm 2 == x=2, x=-2
x=\frac{1\pm\sqrt{5}}{2} == \frac{1+\sqrt5}{2}, \frac{1-\sqrt5}{2}
# values
\sqrt{8} == 2\sqrt{2}
√8 == 2\sqrt{2}
√(8) == 2\sqrt2
2√2 == \sqrt 8
\sqrt[3]{8} == 2
\sqrt[3]{-8} == -2
8^{1/3} == 2
2^{10} == 1024
2^10 == 1024
2**10 == 1024
5! == 120
5!! == 15
\binom{5}{2} == 10
C == c
\pi == 3.14159265358979
2\pi == 6.283185
e^{i\pi} == -1
# complex numbers
3+4i == 4i+3
3+4i != 3-4i
(1+i)^2 == 2i
\frac{1}{i} == -i
# expressions
x+y == y+x
xy == yx
(x+1)^2 == x^2+2x+1
(x+1)^2 != x^2+1
(x+1)(x-1) == x^2-1
\frac{x^2-1}{x-1} == x+1
\sin^2 x + \cos^2 x == 1
\sin 2x == 2\sin x\cos x
\sin(2x) == 2\sin(x)\cos(x)
\sin^2 x != \sin x^2
\tan x == \frac{\sin x}{\cos x}
\ln 8 == 3\ln 2
\log_2 8 == 3
\log_{10} 100 == 2
\log 100 == 2
\lg 100 != 3
e^{2\ln x} == x^2
\sqrt{x^2} != x
|x| == \sqrt{x^2}
n! == n(n-1)!
\binom{n}{2} == \frac{n(n-1)}{2}
\frac{n(n+1)}{2} == \sum_{k=1}^{n} k
\frac{n(n+1)}{2} != \sum_{k=1}^{n} k^2
\sum_{k=0}^{m} k != \sum_{k=0}^{m} k^2
x^2 + C == x^2 + c
x^2+C != x^2
a_n = 2^n == 2^n
a_1 != a_2
# bases and matrices
2043_5 == 2043_{5}
2043_5 != 2043_7
2043_{\text{five}} == 2043_5
2043 == 2043_5
\begin{pmatrix}1&2\\3&4\end{pmatrix} == \begin{bmatrix}1 & 2\\ 3 & 4\end{bmatrix}
\begin{pmatrix}1&2\\3&4\end{pmatrix} != \begin{pmatrix}1&3\\2&4\end{pmatrix}
\begin{pmatrix}1\\2\end{pmatrix} == (1,2)
\begin{pmatrix}1\\2\end{pmatrix} != \begin{pmatrix}1&2\end{pmatrix}
\begin{pmatrix}0.5\\2\end{pmatrix} == \begin{pmatrix}\frac12\\2\end{pmatrix}
[[1,2],[3,4]] == \begin{pmatrix}1&2\\3&4\end{pmatrix}
# choices
A == (A)
\text{(A)} == A
\textbf{(A)} == A
\textbf{(A) }12 == A
(A) 12 == A
A. 12 == A
A) 12 == A
\textbf{(A) }12 == 12
Option A == A
选A == A
选项A == A
B != A
A, B != A
A,B == B,A
AB != A
# words
Yes == yes
\text{Yes} == yes
true == yes
No != yes
是 == yes
否 == no
\text{Harriet} == Harriet
Harriet != Henriette
the harriet == Harriet
# dates and times
Monday == \text{Monday}
星期一 == Monday
March 5, 2020 == 5 March 2020
March 5th == March 5
March 6 != March 5
2020-03-05 == March 5, 2020
11:30 == 11:30
11:30 AM == 11:30 a.m.
11:30 am == 11:30
11:30 am != 11:30 pm
2:00 PM == 14:00
2 PM == 2:00 PM
1:30 != 11:30
# ratios
2:3 == 2:3
2:3 == 4:6
3:2 != 2:3
2:3 == \frac{2}{3}
1:2:3 == 2:4:6
# number words
\text{12 and 13} == 12, 13
12 \text{ and } 13 == 12,13
five == 5
twenty-one == 21
三 == 3
5 million == 5000000
5\text{ million} == 5000000
1.2万 == 12000
# spelling
３．５ == 3.5
（1，2） == (1,2)
**42** == 42
$42$ == 42
42. == 42
42。 == 42
\text{42} == 42
{42} == 42
(42) == 42
+5 == 5
--5 == 5
007 == 7
.5 == 0.5
5. == 5
−5 == -5
–5 == -5
0,5 == 0.5
2\frac{1}{2}x != 2x
\frac{a}{b}\cdot b == a
# costly
10^{10^{10}} != 1
10^{10^{10}} == 10^{10^{10}}
9!!!! != 1
(10^8)! != 1
x^{1000000000} != x
(x+y)^{100000} != 1
99999999999999999999999 != 99999999999999999999998
\frac{1}{0} != 5
\frac{0}{0} != \frac{0}{0}
\infty == +\infty
-\infty != \infty
\left(\frac{1}{2}\right)^n == 2^{-n}
\frac{3}{4}\text{ of the cake} == 3/4
# names
AB=5 == 5
|AB| = 5 == 5
\angle ABC = 60^\circ == 60
S_{\triangle ABC}=6 == 6
V_1:V_2 = 3:4 == 3:4
f(2)=7 == 7
2x = 6 != 6
x^2=4 != 4
n \equiv 1 \pmod{4} == n\equiv 1\pmod 4
n \equiv 3 \pmod{4} != n\equiv 1\pmod 4
k\pi, k\in\mathbb{Z} == k\pi , k \in \mathbb{Z}
2\sqrt{3}\text{ cm} == 2\sqrt{3}
100\pi\text{ cm}^2 == 100\pi
12 \text{ (approximately)} == 12
\frac{5}{6}\,\text{m} == 5/6
3\times 10^8\text{ m/s} == 300000000
1\text{ h }30\text{ min} == 1\text{ h }30\text{ min}
1/2004! == \frac{1}{2004!}
\frac{1}{2^{118}} != \frac{1}{2^{120}}
\frac{x}{2^{118}} != \frac{x}{2^{120}}
\sin 30^\circ == \frac{1}{2}
\cos(60^\circ) == 0.5
\arctan 1 == \frac{\pi}{4}
\tan^{-1} 1 == \frac{\pi}{4}
x \cdot y^2 / z == \frac{xy^2}{z}
a^{-1} == \frac{1}{a}
\lfloor 2.5 \rfloor == 2
\max(2,3) == 3
\gcd(12,18) == 6
\overline{AB} == \overline{AB}
\vec{a}+\vec{b} == \vec{b}+\vec{a}
2\mathbf{i}+3\mathbf{j} == 3\mathbf{j}+2\mathbf{i}
2\hat{i}+3\hat{j} != 3\hat{i}+2\hat{j}
4 \text{ and } 5 != 4
4 != 4 \text{ and } 5
p=5,q=2;p=7,q=2 == (5,2),(7,2)
(0;0),(1;2) == (0,0),(1,2)
{1, 2, 3} == 3,2,1
1<x<2\text{ or }3<x<4 == (1,2)\cup(3,4)
# thousands
[-36,104] == [-36, 104]
(1,234) != 1234
1,234 == 1234
32, 349 != 32349
1,234,567 == 1234567
1234567 == 1,234,567
12,34 != 1234
1, 234 != 1234
# more of the same kinds
\text{all real numbers} == \mathbb{R}
x > 1 \text{ and } x < 3 == 1<x<3
k<1\text{ and }k\neq 0 == (-\infty,0)\cup(0,1)
x > 1, x > 3 != x > 3
P(3,-4) == (3,-4)
f^{-1}(x) = \frac{x}{2} == \frac{x}{2}
C(10,5) == 252
C(x+1) == Cx+C
{10 \choose 5} == 252
n^2+n \over 2 == \frac{n^2+n}{2}
\text{A and C} == A,C
\text{odd} == odd
第3个 == 3
\textcolor{red}{5} == 5
\approx 5 == 5
\text{\$}5 == \$5
\pounds 5 != \$5
\frac{\pi}{6} == 30^\circ
\frac{\pi}{3} != 30^\circ
\sum_{i=1}^n i == \frac{n(n+1)}{2}
S = \pi r^2 == \pi r^2
72\text{ km/h} == 20\text{ m/s}
1:\sqrt{3} == \sqrt{3}:3
101_2 != 101_3
x＝5或x＝－5 == 5,-5
45平方米 == 45\text{ m}^2
7:30 \text{ p.m.} == 19:30
5e^{i\pi/3} == \frac{5}{2}+\frac{5\sqrt{3}}{2}i
(x-1)^2+(y-2)^2=4 == x^2+y^2-2x-4y+1=0
\log 2 != \ln 3
"""


ROWS = [line for line in KINDS.strip().splitlines() if not line.startswith("# ")]


@pytest.mark.parametrize("row", ROWS)
def test_verdict(row):
    same = " == " in row
    answer, gold = row.split(" == " if same else " != ")
    assert (difference(answer, gold) is None) is same


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("3/4", "0.75"),
        ("(4,9)", "(4.0,9.0)"),
        ("\\{1,2\\}", "\\{2,1\\}"),
        ("2 < x < 5", "(2,5)"),
        ("35\\%", "0.35"),
        ("1\\text{ m}", "100\\text{ cm}"),
        ("x=9", "9"),
        ("\\frac{1}{\\sqrt{m}}", "\\sqrt{1/m}"),  # equal wherever both are real
    ],
)
def test_answer_and_gold_may_be_swapped(one, other):
    assert difference(one, other) is None
    assert difference(other, one) is None


@pytest.mark.parametrize(
    ("answer", "gold", "options", "same"),
    [
        ("220", "200", {"tolerance": "10%"}, True),  # the edge is in
        ("222", "200", {"tolerance": "10%"}, False),  # a tenth of the gold, not of the answer
        ("180", "200", {"tolerance": "10%"}, True),
        ("178", "200", {"tolerance": "10%"}, False),
        ("3.2", "3.14", {"tolerance": 0.1}, True),
        ("3.14", "\\pi", {"tolerance": "0.01"}, True),
        ("(1.05, 2)", "(1, 2)", {"tolerance": "5%"}, True),
        ("0.29", "\\frac{2}{7}", {}, False),
        ("0.29", "\\frac{2}{7}", {"rounding_digits": 2}, True),
        ("0.285714", "\\frac{2}{7}", {}, True),
        ("0.285714", "\\frac{2}{7}", {"rounding_digits": 7}, False),
        ("0.2857143", "\\frac{2}{7}", {}, True),
        ("0.2857145", "\\frac{2}{7}", {}, False),
        ("35\\%", "35", {}, True),
        ("35\\%", "35", {"percent": "hundredth"}, False),
        ("35\\%", "0.35", {"percent": "hundredth"}, True),
    ],
)
def test_options(answer, gold, options, same):
    assert (difference(answer, gold, MathOptions.of(options)) is None) is same


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tolerance": "much"}, "tolerance: found 'much'"),
        ({"tolerance": "-1"}, "tolerance"),
        ({"tolerance": True}, "tolerance"),
        ({"rounding_digits": 2.5}, "rounding_digits"),
        ({"percent": "same"}, "allowed: same_number, hundredth"),
        ({"answer_source": "box"}, "allowed: after_think, anywhere"),
        ({"digits": 3}, "unknown option 'digits'"),
    ],
)
def test_options_that_cannot_be_used_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        MathOptions.of(options)


TOO_LARGE = [
    "10^{10^{10}}",
    "10^{10^{10^{10}}}",
    "((9!)!)!",
    "(10^8)!",
    "\\binom{1000000}{500000}",
    "\\sum_{k=1}^{10^9} k",
]


@pytest.mark.parametrize("answer", [*TOO_LARGE, "\\tan(10^{10^{6}})", "\\exp(\\exp(\\exp(100)))", "\\Gamma(10^{20})"])
def test_what_would_take_for_ever_is_not_begun(answer):
    assert difference(answer, "1") == "too large to compute"


@pytest.mark.parametrize("answer", TOO_LARGE)
def test_and_yet_a_gold_of_that_kind_can_be_met(answer):
    assert difference(f"$ {answer} $.", answer) is None


def test_nesting():
    assert difference("(" * 5000 + "1" + ")" * 5000, "1") == "the answer is too long"
    assert difference("(" * 500 + "1" + ")" * 500, "1") == "nested too deeply"
    assert difference("2^{" * 80 + "2" + "}" * 80, "1") in ("nested too deeply", "too large to compute")
    assert difference("((((1))))", "1") is None


def test_long_numbers_are_compared_as_written():
    assert difference("7" * 50_000, "1") == "the answer is too long"
    assert difference("7" * 50_000, "7" * 50_000) is None
    assert difference("7" * 3000, "7" * 2999 + "8") == "another answer"
    assert difference("7" * 3000 + ".0", "7" * 3000) is None


PROGRAMS = [
    "__import__('os').mkdir('PLACE')",
    "open('PLACE', 'w')",
    'eval(\'open("PLACE", "w")\')',
    "(lambda: open('PLACE', 'w'))()",
    "[open('PLACE', 'w') for _ in [0]]",
    "(1).__class__.__mro__[1].__subclasses__()",
]


@pytest.mark.parametrize("program", PROGRAMS)
def test_what_a_model_writes_is_never_run(program, tmp_path):
    target = tmp_path / "made"
    program = program.replace("PLACE", str(target))
    assert difference(program, "0") == "the answer looks like code"
    assert difference(f"\\int {program} dx", "0") is not None
    assert not target.exists()


def test_notation_of_its_own_goes_to_math_verify():
    assert difference("\\int_0^1 x^2 dx", "\\frac{1}{3}") is None
    assert difference("\\int_0^1 x^2 dx", "\\frac{1}{2}") == "another answer"
