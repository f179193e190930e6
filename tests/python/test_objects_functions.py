"""Formulas in ROOT's notation, and functions that are more than a formula."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import sapwood
from sapwood.errors import ArgumentError, UnsupportedError
from sapwood.objects.function import Formula

STANDARD = Path(__file__).parent.parent / "golden" / "objects" / "standard.root"


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("1+2*3", 7),
        ("2*x^2", 18),
        ("-x^2", -9),
        ("2^3^2", 512),
        ("2**-1", 0.5),
        ("(x-1)/(x+1)", 0.5),
        ("x>2 && x<4", 1),
        ("!(x>2) || 0", 0),
        ("x==3 ? 10 : 20", 10),
        ("x<0 ? 1 : x<5 ? 2 : 3", 2),
        ("[0]*x+[p1]", 3 * 2 + 5),
        ("[scale]*x", 3 * 7),
        ("pol1(0)", 2 + 5 * 3),
        ("expo(0)", np.exp(2 + 5 * 3)),
        ("1e2 + .5 + 5.", 105.5),
        ("TMath::Sqrt(x+1) + sqrt(4)", 4),
        ("x%2", 1),
        ("y + 10*z", 4 + 50),
        ("x[0] + x[1]", 7),
    ],
)
def test_formulas(text: str, want: float) -> None:
    variables = {"x": 3.0, "y": 4.0, "z": 5.0, "t": 6.0}
    formula = Formula(text, ["p0", "p1", "scale"])
    assert formula(variables, [2.0, 5.0, 7.0]) == pytest.approx(want)
    many = {name: np.full(3, value) for name, value in variables.items()}
    np.testing.assert_allclose(np.broadcast_to(formula(many, [2.0, 5.0, 7.0]), 3), want)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("1/2*x", 0), ("-7/2", -3), ("7%4/2", 1), ("1./2*x", 1.5), ("(x>1)/2", 0), ("!0/2", 0), ("int(x)/2", 1),
        ("pow(x,1/2)", 1), ("x^(1/2)", 1), ("2^-1", 0.5), ("abs(-3)/2", 1), ("max(7,2)/2", 3), ("(x>1 ? 3 : 1)/2", 1),
        ("(x>1 ? 3 : 1.)/2", 1.5), ("sqrt(4)/8", 0.25), ("010*x", 24), ("1/3*[0]", 0), ("[0]/2", 1), ("1/0", 0),
        ("TMath::Sign(2,x)", 2), ("TMath::Sign(2,-x)", -2), ("TMath::Sign(3,-1)/2", -1), ("TMath::Sign(2.5,x-4)", -2.5),
    ],
)  # fmt: skip
def test_whole_numbers_are_those_of_cpp(text: str, want: float) -> None:
    x = np.array([3.0, 3.0])
    assert Formula(text, ["p0"])({"x": x}, [2.0]) == pytest.approx(want)
    assert x.tolist() == [3, 3]


@pytest.mark.parametrize(("text", "want"), [("1/2*x", 1.5), ("(x>1)/2", 0.5), ("int(x)/2", 1.5), ("010*x", 30)])
def test_formulas_of_old_versions_compute_with_doubles(text: str, want: float) -> None:
    assert Formula(text, [], compiled=False)({"x": 3.0}, []) == pytest.approx(want)


@pytest.mark.parametrize("text", ["sqrt(x, x)", "min(x, 1, x)", "TMath::TwoPi(x)", "TMath::Gamma(x, 2)", "atan2(x)"])
def test_functions_with_another_number_of_arguments_are_refused(text: str) -> None:
    with pytest.raises(UnsupportedError, match="arguments"):
        Formula(text, [])


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os')", "x.__class__", "unknown(x)", "[3]*x", "[other]", "1+", "(1", "1)", "x ? 1", "x;y", "",
        "open(x)", "lambda: 1", '"text"', "x = 1", "pol1(9)",
    ],
)  # fmt: skip
def test_what_is_not_known_is_refused(text: str) -> None:
    with pytest.raises(UnsupportedError, match="the formula"):
        Formula(text, ["p0", "p1"])({"x": 1.0}, [1.0, 2.0])


def test_depth_is_limited() -> None:
    for text in ("(" * 5000 + "1" + ")" * 5000, "-" * 5000 + "1", "2^" * 5000 + "1", "1?" * 5000):
        with pytest.raises(UnsupportedError):
            Formula(text, [])


def test_functions_take_arrays_and_check_their_arguments() -> None:
    with sapwood.open(STANDARD) as file:
        two = file["formula_two"]
        assert (two.ndim if hasattr(two, "ndim") else 2) == 2
        np.testing.assert_allclose(two(np.array([0.1, 0.5]), np.array([0.2, 0.6])), [0.34, 1.86])
        with pytest.raises(ArgumentError):
            two(1.0)
        line = file["formula0"]
        assert (line.formula, line.parameters, line.range) == ("[p0]+[p1]*x", {"p0": 1.0, "p1": 2.0}, (-2.0, 4.0))
        assert line(np.zeros((2, 3))).shape == (2, 3)
        assert file["code"].formula is None
        x, y = file["spline3"].knots
        assert x.tolist() == [0, 1, 2.5, 3, 4.2, 6] and y.tolist() == [1, 3, 2, 5, 4, 0]


def test_long_formulas_are_no_deep_ones() -> None:
    assert Formula("+".join(["x"] * 5000), [])({"x": 1.0}, []) == 5000


def test_functions_with_too_many_arguments_are_refused() -> None:
    with sapwood.open(STANDARD) as file:
        formula = file["formula0"].member("fFormula").with_members({"fFormula": "TMath::Gamma(x,x)"})
    with pytest.raises(UnsupportedError, match=r"'TMath::Gamma\(x,x\)' cannot be evaluated"):
        formula(1.0)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("tgamma(0*x)", np.inf), ("tgamma(-1)", np.nan), ("TMath::Gamma(-1)", np.inf), ("gamma(5)", np.log(24)),
        ("TMath::Nint(-2.5)", -2), ("TMath::Nint(x*1e10)", -(2.0**31)), ("round(-2.5)", -3), ("trunc(-2.5)", -2),
        ("round(0.49999999999999994)", 0), ("rint(2.5)", 2), ("lround(2.5)", 3), ("int(1e10)", -(2.0**31)),
        ("TMath::CeilNint(0.3)/2", 0), ("TMath::Even(x)", 0), ("TMath::Odd(x)", 1), ("TMath::Factorial(5)", 120),
        ("TMath::Factorial(171)", np.inf), ("TMath::Binomial(7,3)", 35), ("TMath::Binomial(3,7)", np.nan),
        ("TMath::Binomial(2000000000,1000000000)", np.inf), ("TMath::BinomialI(0.3,5,2)", 0.47178),
        ("TMath::BinomialI(0.3,5,6)", 0), ("TMath::BinomialI(0.3,5,0)", 1), ("TMath::Prob(3,3)", 0.391625),
        ("TMath::Prob(3,2)", 0.223130160148), ("TMath::Prob(3,0)", 0), ("TMath::Prob(-1,3)", 0),
        ("TMath::Prob(0,3)", 1),
        ("TMath::Prob(3,1)", 0.0832645), ("TMath::Prob(170.5,3)", 9.92482e-37), ("TMath::Min(0./0.,2)", 2),
        ("TMath::PoissonI(TMath::QuietNaN(),2)", 0), ("TMath::Power(-TMath::Infinity(),0.5)", np.inf),
        ("TMath::CauchyDist(x,1,2)", 0.0795775), ("TMath::LaplaceDist(x,1,2)", 0.0919699),
        ("TMath::LaplaceDistI(x,1,2)", 0.81606), ("fdim(1,2)", 0), ("remainder(x,2)", -1), ("copysign(2,-x)", -2),
        ("signbit(-x)/2", 0), ("isnan(x)", 0), ("TMath::RadToDeg()", 180 / np.pi), ("0x10+x", 19), ("1<<2+1", 8),
        ("6>>1<<2", 12), ("5&3", 1), ("5|3", 7), ("5&3==1", 0), ("~5", -6), ("int(x)<<1", 6), ("5&6&&0", 0),
    ],
)  # fmt: skip
def test_functions_and_operators_have_the_values_of_root(text: str, want: float) -> None:
    with np.errstate(all="ignore"):
        assert Formula(text, [])({"x": np.array([3.0])}, []) == pytest.approx(want, rel=2e-6, nan_ok=True)


def test_formulas_that_are_not_compiled_have_no_operators_on_bits() -> None:
    for text in ("1<<2", "5&3", "5|3", "~5", "0x10"):
        with pytest.raises(UnsupportedError, match="is not known here"):
            Formula(text, [], compiled=False)


def test_probabilities_of_too_many_degrees_of_freedom_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="2000 degrees of freedom at most"):
        Formula("TMath::Prob(x,100000)", [])({"x": 3.0}, [])
