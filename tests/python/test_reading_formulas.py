"""Formulas of ROOT: aliases that trees store, and conditions of its tools, have ROOT's values or are refused."""

from __future__ import annotations

from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import awkward as ak
import boost_histogram as bh
import numpy as np
import pytest

import sapwood
from sapwood.errors import ArgumentError, ExpressionError, LimitError, NotFoundError, UnsupportedError
from sapwood.files.tree import TTree
from sapwood.table.expressions import RootText
from sapwood.tools.shims import select

INF, NAN = np.inf, np.nan
FIELDS: dict[str, Any] = {
    "n": np.array([-3, -2, -1, 0, 1, 2, 3, 7], np.int32),
    "m": np.array([0, 1, 2, -1, 3, 5, -2, 2], np.int32),
    "u": np.array([0, 1, 2, 3, 4, 2**32 - 1, 5, 6], np.uint32),
    "b": np.array([100, 101, -128, 127, -1, 0, 1, 2], np.int8),
    "ub": np.array([0, 1, 255, 254, 128, 7, 3, 2], np.uint8),
    "s": np.array([-32768, 32767, 0, 1, -1, 2, 3, 4], np.int16),
    "l": np.array([0, 1, 2**53 + 1, -(2**63), 2**63 - 1, -1, 2**62, 5], np.int64),
    "ul": np.array([0, 1, 2**53 + 1, 2**63, 2**64 - 1, 2, 2**62, 5], np.uint64),
    "x": np.array([-2.5, -0.5, 0.0, 0.5, 2.5, NAN, INF, -INF]),
    "y": np.array([0.0, 0.1, 0.2, 0.3, 0.4, 0.7, 1e30, -1.5], np.float32),
    "o": np.array([0, 1, 0, 1, 1, 0, 1, 0], bool),
}

# From ROOT 6.40: TTreeFormula("f", formula, tree).EvalInstance() for each entry of a tree of these branches.
VALUES = """
l+1 : 1 2 9.00719925e+15 -9.22337204e+18 9.22337204e+18 0 4.61168602e+18 6
ul+0 : 0 1 9.00719925e+15 9.22337204e+18 1.84467441e+19 2 4.61168602e+18 5
l*2 : 0 2 1.80143985e+16 -1.84467441e+19 1.84467441e+19 -2 9.22337204e+18 10
ul*2 : 0 2 1.80143985e+16 1.84467441e+19 3.68934881e+19 4 9.22337204e+18 10
n*m : -0 -2 -2 -0 3 10 -6 14
n/m : 0 -2 -0.5 -0 0.333333333 0.4 -1.5 3.5
n/2 : -1.5 -1 -0.5 0 0.5 1 1.5 3.5
n/0 : 0 0 0 0 0 0 0 0
x/0 : 0 0 0 0 0 0 0 0
0/0 : 0 0 0 0 0 0 0 0
1/n : -0.333333333 -0.5 -1 0 1 0.5 0.333333333 0.142857143
n/x : 1.2 4 0 0 0.4 nan 0 -0
n%3 : 0 -2 -1 0 1 2 0 1
-n%3 : -0 2 1 -0 -1 -2 -0 -1
x%2 : 0 0 0 0 0 0 0 0
-7%3 : -1 -1 -1 -1 -1 -1 -1 -1
l%10 : 0 1 2 -8 -8 -1 4 5
20/6%2 : 1 1 1 1 1 1 1 1
n*5%4 : -3 -2 -1 0 1 2 3 3
u-5 : -5 -4 -3 -2 -1 4.29496729e+09 0 1
b+100 : 200 201 -28 227 99 100 101 102
n*1000000000 : -3e+09 -2e+09 -1e+09 0 1e+09 2e+09 3e+09 7e+09
s*s*s*s*s*s : 1.23794004e+27 1.23771338e+27 0 1 1 64 729 4096
ub*ub*ub*ub*ub : 0 1 1.07820391e+12 1.05722782e+12 3.43597384e+10 16807 243 32
1<<n : 2.30584301e+18 4.61168602e+18 9.22337204e+18 1 2 4 8 128
1<<m : 1 2 4 9.22337204e+18 8 32 4.61168602e+18 4
n<<1 : 1.84467441e+19 1.84467441e+19 1.84467441e+19 0 2 4 6 14
n>>1 : 9.22337204e+18 9.22337204e+18 9.22337204e+18 0 0 1 1 3
l>>1 : 0 0 4.50359963e+15 4.61168602e+18 4.61168602e+18 9.22337204e+18 2.30584301e+18 2
n&3 : 1 2 3 0 1 2 3 3
n|4 : 1.84467441e+19 1.84467441e+19 1.84467441e+19 4 5 6 7 7
-1&255 : 255 255 255 255 255 255 255 255
ul&1 : 0 1 0 0 0 0 0 1
x&1 : 0 0 0 0 0 0 0 0
n&1==1 : 1 0 1 0 1 0 1 1
n==1|m : 0 1 2 1.84467441e+19 3 5 1.84467441e+19 2
u&3>1 : 0 1 0 1 0 1 1 0
u+1&3 : 1 2 3 0 1 0 2 3
u<<1&6 : 0 2 4 6 0 6 2 4
m|n&3|1 : 1 3 3 1.84467441e+19 3 7 1.84467441e+19 3
n&&m : 0 1 1 0 1 1 1 1
n||m : 1 1 1 1 1 1 1 1
n&&m|1 : 1 1 1 0 1 1 1 1
n|0&&m : 0 1 1 0 1 1 1 1
!n : 0 0 0 1 0 0 0 0
!x : 0 0 1 0 0 0 0 0
!n==m : 1 0 0 0 0 0 0 0
!n*2 : 0 0 0 2 0 0 0 0
-!n : -0 -0 -0 -1 -0 -0 -0 -0
n^2 : 9 4 1 0 1 4 9 49
-n^2 : -9 -4 -1 -0 -1 -4 -9 -49
-2^n : -0.125 -0.25 -0.5 -1 -2 -4 -8 -128
(-2)^n : -0.125 0.25 -0.5 1 -2 4 -8 -128
n^-1 : -0.333333333 -0.5 -1 inf 1 0.5 0.333333333 0.142857143
2**n : 0.125 0.25 0.5 1 2 4 8 128
-n**2 : -9 -4 -1 -0 -1 -4 -9 -49
2/n^2 : 0.222222222 0.5 2 0 2 0.5 0.222222222 0.0408163265
x^0.5 : nan nan 0 0.707106781 1.58113883 nan inf inf
n^0.5 : nan nan nan 0 1 1.41421356 1.73205081 2.64575131
2^-n : 8 4 2 1 0.5 0.25 0.125 0.0078125
y>0.3 : 0 0 0 1 1 1 1 0
y==0.1 : 0 0 0 0 0 0 0 0
y*10 : 0 1.00000001 2.00000003 3.00000012 4.00000006 6.99999988 1.00000002e+31 -15
y-0.1 : -0.1 1.49011611e-09 0.100000003 0.200000012 0.300000006 0.599999988 1.00000002e+30 -1.6
n<2 & m>0 : 0 1 1 0 1 0 0 0
n>0 || m>0 && x>0 : 0 0 0 0 1 1 1 1
(n>0)*x : -0 -0 0 0 2.5 nan inf -inf
(n>0)+(m>0) : 0 1 1 0 2 2 1 2
-(n>0) : -0 -0 -0 -0 -1 -1 -1 -1
(n>0)|2 : 2 2 2 2 3 3 3 3
(n>0)&(m>0) : 0 0 0 0 1 1 0 1
n==(m==0) : 0 0 0 1 0 0 0 0
(n<m)<3 : 1 1 1 1 1 1 1 1
o+o : 0 2 0 2 2 0 2 0
!o : 1 0 1 0 0 1 0 1
o&1 : 0 1 0 1 1 0 1 0
n-m-1 : -4 -4 -4 0 -3 -4 4 4
n-(m-1) : -2 -2 -2 2 -1 -2 6 6
n*2/4 : -1.5 -1 -0.5 0 0.5 1 1.5 3.5
1-n*m-2 : -1 1 1 -1 -4 -11 5 -15
n--m : -3 -1 1 -1 4 7 1 9
n*-m^2 : 0 2 4 -0 -9 -50 -12 -28
abs(x) : 2.5 0.5 0 0.5 2.5 nan inf inf
sqrt(x) : 1.58113883 0.707106781 0 0.707106781 1.58113883 nan inf inf
log(x) : 0 0 0 -0.693147181 0.916290732 0 inf 0
log10(n) : 0 0 0 0 0 0.301029996 0.477121255 0.84509804
exp(x) : 0.0820849986 0.60653066 1 1.64872127 12.182494 nan 1.01423205e+304 0
asin(x) : 0 -0.523598776 0 0.523598776 0 nan 0 0
acos(n) : 0 0 3.14159265 1.57079633 0 0 0 0
acosh(x) : 0 0 0 0 1.56679924 nan inf 0
atanh(n) : 0 0 -inf 0 inf 0 0 0
min(x,n) : -3 -2 -1 0 1 nan 3 -inf
max(n,x) : -2.5 -0.5 0 0.5 2.5 2 inf 7
pow(x,2) : 6.25 0.25 0 0.25 6.25 nan inf inf
fmod(x,2) : -0.5 -0.5 0 0.5 0.5 nan nan nan
rint(x) : -2 -0 0 0 2 nan inf -inf
hypot(x,n) : 3.90512484 2.06155281 1 0.5 2.6925824 nan inf inf
isnan(x) : 0 0 0 0 0 1 0 0
1e16+n-1e16 : -4 -2 0 0 0 2 4 8
n+1e16-1e16 : -3 -2 -1 0 1 2 3 7
n-1e16+1e16 : -4 -2 0 0 0 2 4 8
n+1-1e16+1e16 : -4 -2 0 0 0 2 4 8
1e308*10*n : -inf -inf -inf 0 inf inf inf inf
n/1e-308/1e308 : -inf -inf -1 0 1 inf inf inf
1e200/n*1e200/1e200 : -3.33333333e+199 -5e+199 -1e+200 0 1e+200 5e+199 3.33333333e+199 1.42857143e+199
n*1e308*10 : -inf -inf -inf nan inf inf inf inf
x!=x : 0 0 0 0 0 1 0 0
x==x : 1 1 1 1 1 0 1 1
0x10+n : 13 14 15 16 17 18 19 23
n+010 : 7 8 9 10 11 12 13 17
9007199254740993-9007199254740992 : 0 0 0 0 0 0 0 0
1e3 : 1000 1000 1000 1000 1000 1000 1000 1000
n>!m : 0 0 0 0 1 1 1 1
u*u : 0 1 4 9 16 1.84467441e+19 25 36
"""
ROWS = [line.rpartition(" : ") for line in VALUES.strip().splitlines()]
FORMULAS: dict[str, str] = {formula: values for formula, _, values in ROWS}


def expected(formula: str) -> np.ndarray[Any, Any]:
    return np.array(FORMULAS[formula].split(), float)


Stored = Callable[..., None]


@pytest.fixture
def tree(tmp_path: Path) -> Generator[Any]:
    with sapwood.recreate(tmp_path / "t.root") as file:
        file["t"] = FIELDS
    with sapwood.open(tmp_path / "t.root") as file:
        yield file["t"]


@pytest.fixture
def lists(tmp_path: Path) -> Generator[Any]:
    """Write lists and arrays. The number of entries is the size of an array, which NumPy would take for the same."""
    with sapwood.recreate(tmp_path / "lists.root") as file:
        file["t"] = {
            "n": np.array([-1, 0, 1], np.int32),
            "v": ak.Array([[0, 1], [], [20, 21, 22]]),
            "w": ak.Array([[-1], [], [-1, 0, 1]]),
            "f": np.array([[0.0, 0.5, 1.0], [1.0, 1.5, 2.0], [2.0, 2.5, 3.0]], np.float32),
            "g": np.array([[1, 2]] * 3, np.int32),
            "h": np.arange(18, dtype=np.int32).reshape(3, 2, 3),
            "one": np.array([[0], [1], [2]], np.int32),
            "text": ["a", "b", "c"],
        }
    with sapwood.open(tmp_path / "lists.root") as file:
        yield file["t"]


@pytest.fixture
def stored(monkeypatch: pytest.MonkeyPatch) -> Stored:
    """Return a function that stores aliases in trees."""
    return lambda **aliases: monkeypatch.setattr(TTree, "aliases", property(lambda _: aliases))


@pytest.mark.parametrize("library", ["ak", "np"])
def test_stored_aliases_have_the_values_of_root(tree: Any, stored: Stored, library: str) -> None:
    names = {f"alias{i}": formula for i, formula in enumerate(FORMULAS)}
    stored(**names)
    found = tree.arrays(list(names), library=library, how=dict)
    for name, formula in names.items():
        values = np.asarray(found[name])
        assert values.dtype in (np.float64, np.bool_), formula
        np.testing.assert_allclose(values.astype(float), expected(formula), rtol=1e-8, err_msg=formula)


def test_histograms_of_stored_aliases_have_the_values_of_root(tree: Any, stored: Stored) -> None:
    names = {f"alias{i}": formula for i, formula in enumerate(FORMULAS)}
    stored(**names)
    for name, formula in names.items():
        axis = bh.axis.Variable([-1e4, -2.2, -0.7, -1e-3, 1e-3, 0.7, 1.2, 4.2, 1e4, 1e10, 1e19])
        wanted = bh.Histogram(axis).fill(expected(formula))
        assert tree.hist(name, axis).values(flow=True).tolist() == wanted.values(flow=True).tolist(), formula


def test_a_stored_alias_of_a_name_returns_the_field(tree: Any, stored: Stored) -> None:
    stored(other="l", same="(other)", rest="other % 10", twice="rest*2")
    found = tree.arrays(["other", "same", "rest", "twice"], how=dict)
    assert found["other"].to_list() == found["same"].to_list() == FIELDS["l"].tolist()
    assert found["rest"].to_list() == expected("l%10").tolist()
    assert found["twice"].to_list() == (2 * expected("l%10")).tolist()
    # In an expression of the caller, the operator is that of Python, and an alias of the caller hides a stored one.
    assert tree.arrays(["other % 10"], how=tuple)[0].to_list() == (FIELDS["l"] % 10).tolist()
    assert tree.arrays(["rest"], aliases={"rest": "n % 3"}, how=tuple)[0].to_list() == (FIELDS["n"] % 3).tolist()


@pytest.mark.parametrize(
    ("formula", "values"),
    [  # From ROOT, as above.
        ("v%3", [[0, 1], [], [2, 0, 1]]),
        ("v*n", [[0, -1], [], [20, 21, 22]]),
        ("v/n", [[0, -1], [], [20, 21, 22]]),
        ("n/v", [[0, -1], [], [1 / 20, 1 / 21, 1 / 22]]),
        ("v>15", [[0, 0], [], [1, 1, 1]]),
        ("n>0&&v>20", [[0, 0], [], [0, 1, 1]]),
        ("!v", [[1, 0], [], [0, 0, 0]]),
        ("v&6", [[0, 0], [], [4, 4, 6]]),
        ("f*n", [[0, -0.5, -1], [0, 0, 0], [2, 2.5, 3]]),
        ("n+f", [[-1, -0.5, 0], [1, 1.5, 2], [3, 3.5, 4]]),
        ("f>n", [[1, 1, 1], [1, 1, 1], [1, 1, 1]]),
        ("n/f", [[0, -2, -1], [0, 0, 0], [0.5, 0.4, 1 / 3]]),
        ("n&&f", [[0, 1, 1], [0, 0, 0], [1, 1, 1]]),
        ("one+1", [[1], [2], [3]]),
        ("one+n", [[-1], [1], [3]]),
        ("h*g", [[[0, 1, 2], [6, 8, 10]], [[6, 7, 8], [18, 20, 22]], [[12, 13, 14], [30, 32, 34]]]),
    ],
)
def test_stored_aliases_of_lists(lists: Any, stored: Stored, formula: str, values: Any) -> None:
    stored(alias=formula)
    flat = ak.to_numpy(ak.ravel(ak.Array(values)))
    for library in ("ak", "np"):
        found = ak.Array([np.asarray(one).tolist() for one in lists.arrays(["alias"], library=library, how=tuple)[0]])
        assert found.ndim == ak.Array(values).ndim
        assert ak.num(found).to_list() == ak.num(ak.Array(values)).to_list()
        np.testing.assert_allclose(ak.to_numpy(ak.ravel(found)).astype(float), flat)
    (steps,) = zip(*lists.iterate(["alias"], step_size=2, how=tuple), strict=True)
    np.testing.assert_allclose(np.concatenate([ak.to_numpy(ak.ravel(step)) for step in steps]).astype(float), flat)
    axis = bh.axis.Regular(7, -1.3, 40)
    wanted = bh.Histogram(axis).fill(flat.astype(float))
    assert lists.hist("alias", axis).values(flow=True).tolist() == wanted.values(flow=True).tolist()


@pytest.mark.parametrize(
    ("formula", "kind", "message", "column"),
    [
        ("n%2*3", UnsupportedError, r"as a % \(b \* c\)", 1),
        ("n%2%2", UnsupportedError, "around the operands of '%'", 3),
        ("n%-2", UnsupportedError, "around the operands of '%'", 1),
        ("2^n^2", UnsupportedError, "powers are grouped", 3),
        ("2**n**2", UnsupportedError, "powers are grouped", 4),
        ("!n^2", UnsupportedError, "around the operands of '\\^'", 2),
        ("1+n<<1", UnsupportedError, "around the operands of '<<'", 3),
        ("n<<1+1", UnsupportedError, "around the operands of '<<'", 1),
        ("n>>1<<1", UnsupportedError, "around the operands of '<<'", 4),
        ("-1 < n < 3", UnsupportedError, "compares from right to left", 7),
        ("n>0 == v>0", UnsupportedError, "compares from right to left", 4),
        ("n ? 1 : 2", UnsupportedError, "'\\?' is not supported", 2),
        ("~n", UnsupportedError, "'~' is not supported", 0),
        ("n//2", UnsupportedError, "'//' is not supported", 1),
        ("v[0]", UnsupportedError, "'\\[' is not supported", 1),
        ('text=="a"', UnsupportedError, "'\"' is not supported", 6),
        ("n = 1", UnsupportedError, "'=' is not supported", 2),
        ("Sum$(v)", UnsupportedError, "function Sum\\$ is not supported", 0),
        ("Entry$", UnsupportedError, "Entry\\$ is not supported", 0),
        ("1 + TMath::Prob(n)", UnsupportedError, "function TMath::Prob is not supported", 4),
        ("erf(n)", UnsupportedError, "function erf is not supported", 0),
        ("arctan2(n, n)", UnsupportedError, "function arctan2 is not supported", 0),
        ("text+1", UnsupportedError, "numbers and lists of numbers only", 0),
        ("f*g", UnsupportedError, "differ in their sizes", 1),
        ("f*one", UnsupportedError, "differ in their sizes", 1),
        ("one*v", UnsupportedError, "differ in their sizes", 3),
        ("h*f", UnsupportedError, "differ in their sizes", 1),
        ("v+w", ArgumentError, "cannot compute this", 1),
        ("n+z", NotFoundError, "neither a branch nor an alias", 2),
        ("sqrt", ArgumentError, "needs arguments", 0),
        ("abs(n, v)", ExpressionError, "takes 1 arguments", 0),
        ("pow(n)", ExpressionError, "takes 2 arguments", 0),
        ("(n+1", ExpressionError, "ends too soon", 4),
        ("n+1)", ExpressionError, "'\\)' is not expected", 3),
        ("n and v", ExpressionError, "'and' is not expected", 2),
        ("2n", UnsupportedError, "is not", 0),
        ("5u", UnsupportedError, "is not", 0),
        ("", ExpressionError, "ends too soon", 0),
        ("(" * 300 + "n" + ")" * 300, LimitError, "nested operations", None),
        ("-" * 300 + "n", LimitError, "nested operations", None),
        ("+".join("n" * 300), LimitError, "nested operations", None),
    ],
)
def test_what_root_computes_in_another_way_is_refused(
    lists: Any, stored: Stored, formula: str, kind: type[Exception], message: str, column: int | None
) -> None:
    stored(alias=formula)
    with pytest.raises(kind, match=message) as info:
        lists.arrays(["alias"])
    lines = str(info.value).splitlines()
    assert "in the alias 'alias' that the tree stores" in lines
    assert column is None or f"    {' ' * column}^" in lines
    with pytest.raises(kind):
        lists.hist("alias", bh.axis.Regular(2, 0, 1))


def test_an_index_prunes_by_the_rules_of_the_formula(tmp_path: Path, stored: Stored) -> None:
    values = np.repeat([0, 0.1, 0.3, 0.5], 50).astype(np.float32)
    whole = np.repeat(np.array([0, 2**53, 2**53 + 1, 2**60]), 50)
    for name in ("plain", "indexed"):
        with sapwood.recreate(tmp_path / f"{name}.root", index=name == "indexed") as file:
            file.mktree("t", {"y": values, "l": whole}, auto_flush=50)
    stored(
        large="y>0.3", equal="y==0.3", same="y==y", both="large && !equal", other="!(y<=0.3)",
        exact="l>9007199254740992", near="l==9007199254740993", bits="(y>0.3) & (l>0)", mixed="!y || l+1>9e17",
    )  # fmt: skip
    with sapwood.open(f"{tmp_path}/plain.root:t") as plain, sapwood.open(f"{tmp_path}/indexed.root:t") as indexed:
        for name, entries in [
            ("large", 100), ("equal", 0), ("same", 200), ("both", 100), ("other", 100), ("exact", 50), ("near", 100),
            ("bits", 100), ("mixed", 100), ("~large", 100), ("large & (l > 9007199254740992)", 100),
        ]:  # fmt: skip
            found = [tree.arrays(["y", "l"], name) for tree in (plain, indexed)]
            assert found[0].to_list() == found[1].to_list(), name
            assert len(found[0]) == entries, name
        for name in ("large", "both", "other", "bits"):
            assert indexed.explain("y", name).entries_skipped >= 50, name


def test_conditions_of_rooteventselector_are_formulas(tmp_path: Path) -> None:
    with sapwood.recreate(tmp_path / "in.root") as file:
        file["t"] = {name: FIELDS[name] for name in "nuy"}
        file.mkrntuple("r", {"n": FIELDS["n"]})

    def selected(cut: str, name: str = "t") -> list[int]:
        options: Any = {"recreate": True, "compression": None, "cut": cut}
        select([f"{tmp_path / 'in.root'}:{name}"], str(tmp_path / "out.root"), **options)
        with sapwood.open(tmp_path / "out.root") as file:
            return file[name]["n"].array().to_list()

    assert selected("n^2 > 4") == [-3, 3, 7]
    assert selected("n%3 == -1") == [-1]
    assert selected("u - 5 < 0 && !(y > 0.3)") == [-3, -2, -1]
    assert selected("n*1000000000 > 2e9") == [3, 7]
    assert selected("n%3 == -1", "r") == [-1]
    with pytest.raises(UnsupportedError, match="'~' is not supported"):
        selected("~n")


def test_formulas_of_constants(tree: Any) -> None:
    values = {
        "!(1>2)": True, "-7%3": -1, "1/0": 0, "2^0.5": 2**0.5, "!3": False, "1&&0": False, "-1&255": 255, "log(-1)": 0,
        "n*0 + pow(0, -1)": INF, "(1>0)+(2>1)": 2,
    }  # fmt: skip
    for formula, value in values.items():
        (found,) = tree.arrays([RootText(formula)], entry_stop=2, how=tuple)
        assert found.to_list() == [value] * 2
        wanted = bh.Histogram(bh.axis.Regular(5, -1.5, 3)).fill([value] * 8)
        assert (
            tree.hist(RootText(formula), wanted.axes[0]).values(flow=True).tolist() == wanted.values(flow=True).tolist()
        )


def test_a_formula_of_root_among_expressions(tree: Any) -> None:
    found = tree.arrays([RootText("n%3"), "n"], RootText("-n^2 < -1"), how=dict)
    assert found["n"].to_list() == [-3, -2, 2, 3, 7]
    assert found["n%3"].to_list() == [0, -2, 2, 0, 1]
