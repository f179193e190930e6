"""Functions: formulas with parameters, and splines. A formula is parsed and evaluated here, never run as code."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import numpy as np

from sapwood.errors import ArgumentError, UnsupportedError
from sapwood.objects.basic import TNamed
from sapwood.objects.model import Model, behavior
from sapwood.table.special import beta_cdf

Array = np.ndarray[Any, Any]
# Returns the value of (part of) a formula for variables and parameters.
Compiled = Callable[[dict[str, Any], Any], Any]

_TOKEN = re.compile(
    r"\s*(?:(?P<number>0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)[fFlL]?"
    r"|(?P<name>[A-Za-z_]\w*(?:::\w+)*)|\[(?P<parameter>[^\]]+)\]"
    r"|(?P<sign>\*\*|&&|\|\||<<|>>|[<>=!]=|[-+*/^%<>!?:(),\[\]&|~]))"
)


def _gaus(x: Any, mean: Any = 0.0, sigma: Any = 1.0, norm: Any = False) -> Any:
    value = np.exp(-0.5 * ((x - mean) / sigma) ** 2)
    return value / (np.sqrt(2 * np.pi) * sigma) if norm else value


def _breit_wigner(x: Any, mean: Any = 0.0, gamma: Any = 1.0) -> Any:
    return gamma / ((x - mean) ** 2 + gamma**2 / 4) / (2 * np.pi)


# Rational approximations of the Landau density (Kölbig and Schorr, CERNLIB G110): for arguments up to each limit, the
# coefficients of numerator and denominator.
_LANDAU = (
    (-1.0, (0.4259894875, -0.1249762550, 0.03984243700, -0.006298287635, 0.001511162253),
     (1.0, -0.3388260629, 0.09594393323, -0.01608042283, 0.003778942063)),
    (1.0, (0.1788541609, 0.1173957403, 0.01488850518, -0.001394989411, 0.0001283617211),
     (1.0, 0.7428795082, 0.3153932961, 0.06694219548, 0.008790609714)),
    (5.0, (0.1788544503, 0.09359161662, 0.006325387654, 0.00006611667319, -0.000002031049101),
     (1.0, 0.6097809921, 0.2560616665, 0.04746722384, 0.006957301675)),
    (12.0, (0.9874054407, 118.6723273, 849.2794360, -743.7792444, 427.0262186),
     (1.0, 106.8615961, 337.6496214, 2016.712389, 1597.063511)),
    (50.0, (1.003675074, 167.5702434, 4789.711289, 21217.86767, -22324.94910),
     (1.0, 156.9424537, 3745.310488, 9834.698876, 66924.28357)),
    (300.0, (1.000827619, 664.9143136, 62972.92665, 475554.6998, -5743609.109),
     (1.0, 651.4101098, 56974.73333, 165917.4725, -2815759.939)),
)  # fmt: skip
_LANDAU_LOW = (0.04166666667, -0.01996527778, 0.02709538966)
_LANDAU_HIGH = (-1.845568670, -4.284640743)


def _landau_density(v: Any) -> Any:
    v = np.asarray(v, dtype=np.float64)
    value = np.zeros(v.shape)
    done = np.zeros(v.shape, dtype=bool)

    def polynomial(coefficients: tuple[float, ...], x: Any) -> Any:
        return np.polynomial.polynomial.polyval(x, coefficients)

    with np.errstate(all="ignore"):
        low = v < -5.5
        u = np.exp(v + 1.0)
        shape = 0.3989422803 * np.exp(-1 / u) / np.sqrt(u) * (1 + polynomial(_LANDAU_LOW, u) * u)
        value[low] = np.where(u < 1e-10, 0.0, shape)[low]
        done |= low
        for i, (limit, above, below) in enumerate(_LANDAU):
            here = ~done & (v < limit)
            x = v if i < 3 else 1 / v
            ratio = polynomial(above, x) / polynomial(below, x)
            front = np.exp(-np.exp(-v - 1)) * np.exp(-0.5 * (v + 1)) if i == 0 else 1.0 if i < 3 else x * x
            value[here] = (front * ratio)[here]
            done |= here
        u = 1 / (v - v * np.log(v) / (v + 1))
        value[~done] = (u * u * (1 + polynomial(_LANDAU_HIGH, u) * u))[~done]
    return value


def _landau(x: Any, mean: Any = 0.0, sigma: Any = 1.0, norm: Any = False) -> Any:
    if np.all(sigma <= 0):
        return np.zeros(np.shape(x))
    density = _landau_density((x - mean) / sigma)
    return density / sigma if norm else density


def _each(function: Callable[[float], float], at_poles: float) -> Callable[[Any], Any]:
    """Make a function of the standard library accept arrays."""

    def one(x: float) -> float:
        try:
            return function(x)
        except ValueError:
            return at_poles
        except OverflowError:
            return math.inf

    return np.vectorize(one, otypes=[np.float64])


_erf, _erfc = _each(math.erf, math.nan), _each(math.erfc, math.nan)
_gamma, _log_gamma = _each(math.gamma, math.nan), _each(math.lgamma, math.inf)


def _gamma_of_cpp(x: Any) -> Any:
    """Return the gamma function, which is infinite at zero, with the sign of the zero."""
    return np.where(np.equal(x, 0), np.copysign(np.inf, x), _gamma(x))


def _gamma_of_root(x: Any) -> Any:
    """Return the gamma function, which is infinite at all of its poles."""
    return np.where(np.less_equal(x, 0) & (np.floor(x) == x), np.inf, _gamma(x))


def _whole(x: Any, bits: int = 32) -> Any:
    """Convert to integers as processors do: what does not fit becomes the least one."""
    least = -(2.0 ** (bits - 1))
    with np.errstate(invalid="ignore"):
        fits = (x > least) & (x < -least)
        return np.where(fits, np.trunc(x), least).astype(np.int64)


def _round(x: Any) -> Any:
    """Round half away from zero."""
    whole = np.trunc(x)
    with np.errstate(invalid="ignore"):
        return whole + np.copysign(np.abs(x - whole) >= 0.5, x)


_FACTORIALS = np.array([float(math.factorial(n)) for n in range(171)] + [np.inf])


def _choices(n: float, k: float) -> float:
    n, k = int(_whole(n)), int(_whole(k))
    if n < 0 or k < 0 or n < k:
        return math.nan
    logarithm = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
    return float(math.comb(n, k)) if logarithm < 709 else math.inf


_binomial = np.vectorize(_choices, otypes=[np.float64])


def _binomial_tail(p: Any, n: Any, k: Any) -> Any:
    """Return the probability of `k` successes or more in `n` trials."""
    p, n, k = np.broadcast_arrays(p, _whole(n).astype(np.float64), _whole(k).astype(np.float64))
    inside = (k > 0) & (k <= n) & (p > 0) & (p < 1)
    found = np.where(k <= 0, 1.0, np.where((k > n) | (p <= 0), 0.0, np.where(p >= 1, 1.0, np.nan)))
    found[inside] = beta_cdf(p[inside], k[inside], n[inside] - k[inside] + 1)
    return found[()]


_MOST_DEGREES = 2000


def _chi2_probability(chi2: Any, degrees: Any) -> Any:
    """Return the probability of a larger chi-squared, by its sum over every second number of degrees of freedom."""
    chi2, degrees = np.broadcast_arrays(chi2, _whole(degrees))
    most = int(degrees.max(initial=0))
    if most > _MOST_DEGREES:
        raise UnsupportedError(f"TMath::Prob is computed for {_MOST_DEGREES} degrees of freedom at most, not {most}")
    half = chi2 / 2
    with np.errstate(all="ignore"):
        odd = degrees % 2 == 1
        found = np.where(odd, _erfc(np.sqrt(half)), 0.0)
        for n in range(most // 2 + 1):
            for power, of_kind in ((float(n), ~odd), (n + 0.5, odd)):
                term = np.exp(power * np.log(half) - half - math.lgamma(power + 1))
                found = np.where(of_kind & (2 * power + 2 <= degrees), found + term, found)
    return np.where((degrees <= 0) | (chi2 < 0), 0.0, np.where(chi2 == 0, 1.0, found))[()]


def _above(x: Any, y: Any) -> Any:
    return np.where(np.isnan(x) | np.isnan(y), np.nan, np.where(x > y, x - y, 0.0))


def _cauchy(x: Any, median: Any = 0.0, scale: Any = 1.0) -> Any:
    return scale / np.pi / (scale**2 + (x - median) ** 2)


def _laplace(x: Any, mean: Any = 0.0, scale: Any = 1.0) -> Any:
    return np.exp(-np.abs((x - mean) / scale)) / (2 * scale)


def _laplace_sum(x: Any, mean: Any = 0.0, scale: Any = 1.0) -> Any:
    tail = np.exp(-np.abs((x - mean) / scale)) / 2
    return np.where(np.less_equal(x, mean), tail, 1 - tail)


def _poisson(n: Any, mean: Any) -> Any:
    with np.errstate(all="ignore"):
        power = np.where(np.equal(n, 0), 0.0, n * np.log(mean))
        value = np.where(np.less(n, 0), 0.0, np.exp(power - _log_gamma(np.add(n, 1.0)) - mean))
    return np.where(np.less(mean, 0), np.nan, value)


def _crystal_ball(x: Any, alpha: Any, n: Any, sigma: Any, mean: Any = 0.0) -> Any:
    """Return a Gaussian with a power law from `alpha` sigmas on, below the mean if `alpha` is positive."""
    with np.errstate(all="ignore"):
        turn = np.abs(alpha)
        z = (x - mean) / sigma * np.where(np.less(alpha, 0), -1.0, 1.0)
        tail = np.exp(-0.5 * turn**2) * ((n / turn) / (n / turn - turn - z)) ** n
        return np.where(np.less(sigma, 0), 0.0, np.where(z > -turn, np.exp(-0.5 * z**2), tail))


def _crystal_ball_density(x: Any, alpha: Any, n: Any, sigma: Any, mean: Any = 0.0) -> Any:
    with np.errstate(all="ignore"):
        turn = np.abs(alpha)
        tail = n / turn / (n - 1.0) * np.exp(-0.5 * turn**2)
        core = np.sqrt(np.pi / 2) * (1.0 + _erf(turn / np.sqrt(2.0)))
        found = _crystal_ball(x, alpha, n, sigma, mean) / (sigma * (tail + core))
        return np.where(np.less(sigma, 0), 0.0, np.where(np.less_equal(n, 1), np.nan, found))


def _two_gaussians(
    x: Any, y: Any, sigma_x: Any = 1.0, sigma_y: Any = 1.0, rho: Any = 0.0, mean_x: Any = 0.0, mean_y: Any = 0.0
) -> Any:
    u, v, rest = (x - mean_x) / sigma_x, (y - mean_y) / sigma_y, 1.0 - rho**2
    return np.exp(-0.5 * (u**2 - 2 * rho * u * v + v**2) / rest) / (2 * np.pi * sigma_x * sigma_y * np.sqrt(rest))


def _exponential(x: Any, rate: Any, start: Any = 0.0) -> Any:
    return np.where(np.less(x, start), 0.0, rate * np.exp(-rate * np.maximum(x - start, 0.0)))


def _chebyshev(x: Any, *coefficients: Any) -> Any:
    return np.polynomial.chebyshev.chebval(x, np.array(coefficients, dtype=np.float64))


def _is_whole(value: Any) -> bool:
    return np.asarray(value).dtype.kind in "iub"


def _quotient(a: Any, b: Any) -> Any:
    """Divide as C++ does: the quotient of whole numbers is one, rounded towards zero (0 for a divisor of 0)."""
    if not (_is_whole(a) and _is_whole(b)):
        return np.true_divide(a, b)
    with np.errstate(divide="ignore"):
        return np.sign(a) * np.sign(b) * np.floor_divide(np.abs(a), np.abs(b))


def _of_integers(sign: str, function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def compute(a: Any, b: Any) -> Any:
        if not (_is_whole(a) and _is_whole(b)):
            raise TypeError(f"{sign} needs integers")
        return function(np.asarray(a, np.int64), np.asarray(b, np.int64))

    return compute


def _power(a: Any, b: Any) -> Any:
    # NumPy computes the square root for a power of 0.5, which is not a number for minus infinity.
    return np.where(np.equal(a, -np.inf) & np.equal(b, 0.5), np.inf, np.power(a, b))[()]


_remainder = np.vectorize(
    lambda x, y: math.remainder(x, y) if math.isfinite(x) and y != 0 else math.nan, otypes=[np.float64]
)


def _least(a: Any, b: Any) -> Any:
    return np.where(np.less_equal(a, b), a, b)


def _most(a: Any, b: Any) -> Any:
    return np.where(np.greater_equal(a, b), a, b)


def _sign(a: Any, b: Any = None) -> Any:
    """Return the sign of a number; with two numbers, the first with the sign of the second."""
    if b is None:
        return np.sign(a)
    return np.where(np.less(b, 0), -np.abs(a), np.abs(a)) if _is_whole(a) else np.copysign(a, b)


def _number(text: str) -> float | int:
    """Return a number as C++ reads it: whole without a point or an exponent, octal if it begins with 0."""
    if text[:2] in ("0x", "0X"):
        return int(text, 16)
    if not text.isdecimal():
        return float(text)
    value = int(text, 8 if re.fullmatch("0[0-7]+", text) else 10)
    return value if value < 1 << 63 else float(value)


def _constant(value: float) -> Callable[[], float]:
    return lambda: value


_OF_TMATH = {
    "twopi": 2 * np.pi, "piover2": np.pi / 2, "piover4": np.pi / 4, "invpi": 1 / np.pi, "radtodeg": 180 / np.pi,
    "degtorad": np.pi / 180, "sqrt2": math.sqrt(2), "ln10": math.log(10), "loge": math.log10(math.e),
    "eulergamma": np.euler_gamma, "infinity": np.inf, "quietnan": np.nan,
}  # fmt: skip
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{name: _constant(value) for name, value in _OF_TMATH.items()},
    **{name: getattr(np, name) for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh", "exp", "log", "log10")},
    **{name: getattr(np, name) for name in ("sqrt", "floor", "ceil", "exp2", "expm1", "log1p", "log2", "cbrt")},
    "hypot": np.hypot,
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "atan2": np.arctan2, "asinh": np.arcsinh,
    "acosh": np.arccosh, "atanh": np.arctanh, "abs": np.abs, "fabs": np.abs, "pow": _power, "power": _power,
    "min": _least, "max": _most, "fmod": np.fmod, "int": _whole, "sq": np.square, "sign": _sign,
    "gaus": _gaus, "landau": _landau, "breitwigner": _breit_wigner, "pi": lambda: np.pi, "e": lambda: np.e,
    "erf": _erf, "erfc": _erfc, "freq": lambda x: 0.5 * _erfc(-x / np.sqrt(2.0)),
    "gamma": _gamma_of_root, "tgamma": _gamma_of_cpp, "lgamma": _log_gamma, "lngamma": _log_gamma,
    "poisson": _poisson, "poissoni": lambda n, mean: _poisson(_whole(n), mean),
    "poisson_pdf": lambda n, mean: _poisson(np.trunc(n), mean),
    "crystalball_function": _crystal_ball, "crystalball_pdf": _crystal_ball_density,
    **{f"chebyshev{n}": _chebyshev for n in range(11)},
    "breitwigner_pdf": lambda x, gamma, mean=0.0: _breit_wigner(x, mean, gamma),
    "gaussian_pdf": lambda x, sigma=1.0, mean=0.0: _gaus(x, mean, sigma, True),
    "normal_pdf": lambda x, sigma=1.0, mean=0.0: _gaus(x, mean, sigma, True),
    "landau_pdf": lambda x, width=1.0, mean=0.0: _landau(x, mean, width, True),
    "round": _round, "trunc": np.trunc, "rint": np.rint, "nearbyint": np.rint, "nint": lambda x: _whole(np.rint(x)),
    "ceilnint": lambda x: _whole(np.ceil(x)), "floornint": lambda x: _whole(np.floor(x)),
    "lround": lambda x: _whole(_round(x), 64), "even": lambda x: 1 - (_whole(x, 64) & 1),
    "odd": lambda x: _whole(x, 64) & 1, "signbit": lambda x: np.signbit(x) * 1, "isnan": lambda x: np.isnan(x) * 1,
    "isinf": lambda x: np.isinf(x) * 1, "isfinite": lambda x: np.isfinite(x) * 1,
    "finite": lambda x: np.isfinite(x) * 1, "fmax": np.fmax, "fmin": np.fmin, "copysign": np.copysign,
    "nextafter": np.nextafter, "fdim": _above, "remainder": _remainder, "ldexp": lambda x, n: x * np.exp2(_whole(n)),
    "factorial": lambda n: _FACTORIALS[np.clip(_whole(n), 0, 171)], "binomial": _binomial,
    "binomiali": _binomial_tail, "prob": _chi2_probability, "cauchydist": _cauchy, "laplacedist": _laplace,
    "laplacedisti": _laplace_sum,
    "exponential_pdf": _exponential, "bigaussian_pdf": _two_gaussians,
}  # fmt: skip
_CONSTANTS = {"pi": np.pi, "true": 1.0, "false": 0.0, "infinity": np.inf}
# Operators from the weakest to the strongest. Results of comparisons are whole numbers, as in C++.
_BINARY: list[dict[str, Callable[[Any, Any], Any]]] = [
    {"||": lambda a, b: np.logical_or(a, b) * 1},
    {"&&": lambda a, b: np.logical_and(a, b) * 1},
    {"|": _of_integers("|", np.bitwise_or)},
    {"&": _of_integers("&", np.bitwise_and)},
    {"==": lambda a, b: np.equal(a, b) * 1, "!=": lambda a, b: np.not_equal(a, b) * 1},
    {
        "<": lambda a, b: np.less(a, b) * 1, "<=": lambda a, b: np.less_equal(a, b) * 1,
        ">": lambda a, b: np.greater(a, b) * 1, ">=": lambda a, b: np.greater_equal(a, b) * 1,
    },
    {"<<": _of_integers("<<", np.left_shift), ">>": _of_integers(">>", np.right_shift)},
    {"+": np.add, "-": np.subtract},
    {"*": np.multiply, "/": _quotient, "%": np.fmod},
]  # fmt: skip
_WHOLE = frozenset({"abs", "min", "max", "sq", "sign", "int"})
"""Functions that return whole numbers for whole numbers. The others convert them to floating-point numbers first."""
_OF_CPP = frozenset({"<<", ">>", "&", "|", "~"})
"""Operators that only compiled formulas have with the precedence of C++."""
_DEEPEST = 100


def _shape(name: str, first: int, count: int) -> Compiled | None:
    """Return a predefined function by its name, with its parameters from `first` on (of `count`)."""
    degree = re.fullmatch(r"pol(\d{1,3})", name)
    needed = int(degree[1]) + 1 if degree else {"gaus": 3, "gausn": 3, "landau": 3, "expo": 2}.get(name, 0)
    if not needed or first + needed > count:
        return None
    if name == "gaus":
        return lambda v, p: p[first] * _gaus(v["x"], p[first + 1], p[first + 2])
    if name == "gausn":
        return lambda v, p: p[first] * _gaus(v["x"], p[first + 1], p[first + 2], True)
    if name == "landau":
        return lambda v, p: p[first] * _landau(v["x"], p[first + 1], p[first + 2])
    if name == "expo":
        return lambda v, p: np.exp(p[first] + p[first + 1] * v["x"])
    return lambda v, p: sum(p[first + i] * v["x"] ** i for i in range(needed))


def _takes(function: Callable[..., Any], count: int) -> bool:
    """Return whether a function takes this number of arguments."""
    if isinstance(function, np.ufunc):
        return count == function.nin
    try:
        inspect.signature(function).bind(*range(count))
    except TypeError:
        return False
    return True


class Formula:
    """A formula in ROOT's notation, ready to be evaluated.

    Parameters
    ----------
    text
        Like ``"[0]*sin(x) + [amplitude]*exp(-x^2)"``.
    parameters
        The names of the parameters.
    compiled
        Whether ROOT compiles it as C++, where ``1 / 2`` is 0 (since ROOT 6.04), instead of computing with doubles.

    Raises
    ------
    UnsupportedError
        The formula contains unsupported parts.
    """

    def __init__(self, text: str, parameters: list[str], compiled: bool = True) -> None:
        self._text = text
        self._compiled = compiled
        self._parameters = {name: i for i, name in enumerate(parameters)}
        self._count = len(parameters)
        self._tokens: list[tuple[str, str]] = []
        place = 0
        while text[place:].strip():
            found = _TOKEN.match(text, place)
            if found is None or found.lastgroup is None:
                raise self._unknown(text[place:].strip()[:20])
            if not compiled and (found["sign"] in _OF_CPP or text[found.start("number") :][:2] in ("0x", "0X")):
                raise self._unknown(found[0].strip())
            self._tokens.append((found.lastgroup, found[found.lastgroup]))
            place = found.end()
        self._at = 0
        self._depth = 0
        self._run = self._ternary()
        if self._at < len(self._tokens):
            raise self._unknown(self._tokens[self._at][1])

    def __call__(self, variables: dict[str, Any], parameters: Any) -> Any:
        """Evaluate it for the variables x, y, z, t and the values of the parameters."""
        return self._run(variables, parameters)

    def _unknown(self, what: str) -> UnsupportedError:
        return UnsupportedError(f"the formula {self._text!r} cannot be evaluated: {what!r} is not known here")

    def _take(self, *signs: str) -> str | None:
        if self._at < len(self._tokens):
            kind, text = self._tokens[self._at]
            if kind == "sign" and text in signs:
                self._at += 1
                return text
        return None

    def _expect(self, sign: str) -> None:
        if not self._take(sign):
            found = self._tokens[self._at][1] if self._at < len(self._tokens) else "the end"
            raise UnsupportedError(f"the formula {self._text!r} has {found!r} where {sign!r} is expected")

    @contextmanager
    def _deeper(self) -> Generator[None]:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise UnsupportedError(f"the formula {self._text[:80]!r}... is nested deeper than {_DEEPEST}")
        yield
        self._depth -= 1

    def _ternary(self) -> Compiled:
        with self._deeper():
            test = self._binary(0)
            if not self._take("?"):
                return test
            yes = self._ternary()
            self._expect(":")
            no = self._ternary()
            return lambda v, p: np.where(test(v, p), yes(v, p), no(v, p))

    def _binary(self, level: int) -> Compiled:
        if level == len(_BINARY):
            return self._unary()
        first = self._binary(level + 1)
        rest: list[tuple[Callable[[Any, Any], Any], Compiled]] = []
        while sign := self._take(*_BINARY[level]):
            rest.append((_BINARY[level][sign], self._binary(level + 1)))

        def run(v: dict[str, Any], p: Any) -> Any:
            value = first(v, p)
            for function, operand in rest:
                value = function(value, operand(v, p))
            return value

        return self._typed(run) if rest else first

    def _typed(self, run: Compiled) -> Compiled:
        """Return a part of the formula with the type of its result: a double if ROOT does not compile the formula."""
        return run if self._compiled else lambda v, p: np.asarray(run(v, p), np.float64)[()]

    def _unary(self) -> Compiled:
        with self._deeper():
            sign = self._take("-", "+", "!", "~")
            if sign:
                operand = self._unary()
                if sign == "!":
                    return self._typed(lambda v, p: np.logical_not(operand(v, p)) * 1)
                if sign == "~":
                    return lambda v, p: _of_integers("~", np.bitwise_xor)(operand(v, p), -1)
                return (lambda v, p: -operand(v, p)) if sign == "-" else operand
            base = self._atom()
            if not self._take("^", "**"):
                return base
            power = self._unary()
            return lambda v, p: _power(base(v, p), np.asarray(power(v, p), np.float64))

    def _atom(self) -> Compiled:
        if self._at >= len(self._tokens):
            raise UnsupportedError(f"the formula {self._text!r} ends too early")
        kind, text = self._tokens[self._at]
        self._at += 1
        if kind == "number":
            value = _number(text) if self._compiled else float(text)
            return lambda v, p: value
        if kind == "parameter":
            return self._parameter(text)
        if kind == "name":
            return self._name(text)
        if text == "(":
            inner = self._ternary()
            self._expect(")")
            return inner
        raise self._unknown(text)

    def _parameter(self, name: str) -> Compiled:
        number = self._parameters.get(name)
        if number is None and name.lstrip("p").isdecimal():
            number = int(name.lstrip("p"))
        if number is None or number >= self._count:
            raise self._unknown(f"[{name}]")
        return lambda v, p: p[number]

    def _name(self, name: str) -> Compiled:
        if self._tokens[self._at : self._at + 1] == [("parameter", "0")] and name == "x":
            self._at += 1
        elif self._tokens[self._at : self._at + 1] == [("parameter", "1")] and name == "x":
            self._at += 1
            return lambda v, p: v["y"]
        called = bool(self._take("("))
        arguments: list[Compiled] = []
        if called and not self._take(")"):
            start = self._at
            arguments.append(self._ternary())
            while self._take(","):
                arguments.append(self._ternary())
            self._expect(")")
            first = self._tokens[start]
            shape = _shape(name, int(first[1]), self._count) if first[0] == "number" and first[1].isdecimal() else None
            if shape is not None and len(arguments) == 1:
                return shape
        plain = "lgamma" if name == "gamma" else name.rpartition("::")[2].lower()  # as in C's library
        if called and plain in _FUNCTIONS:
            function = _FUNCTIONS[plain]
            # Universal functions of NumPy would take one more argument as the place of the result.
            if not _takes(function, len(arguments)):
                raise self._unknown(f"{name} with {len(arguments)} arguments")
            if plain in _WHOLE:
                return self._typed(lambda v, p: function(*(argument(v, p) for argument in arguments)))
            return lambda v, p: function(*(np.asarray(argument(v, p), np.float64)[()] for argument in arguments))
        if not called and name in ("x", "y", "z", "t"):
            return lambda v, p: v[name]
        if not called and plain in _CONSTANTS:
            value = _CONSTANTS[plain]
            return lambda v, p: value
        shape = None if called else _shape(name, 0, self._count)
        if shape is None:
            raise self._unknown(name)
        return shape


@behavior("TFormula")
class TFormula(TNamed):
    """A formula with parameters."""

    @property
    def formula(self) -> str:
        """The formula, in ROOT's notation."""
        return self.member("fFormula", none_if_missing=True) or self.member("fTitle")

    @property
    def parameters(self) -> dict[str, float]:
        """The values of the parameters, by name."""
        values = self.member("fClingParameters", none_if_missing=True)
        if values is not None:
            names = {int(number): str(name) for name, number in self.member("fParams").items()}
            return {names.get(i, f"p{i}"): float(value) for i, value in enumerate(values)}
        # Before ROOT 6.04 names were optional.
        values = self.member("fParams")
        names = list(self.member("fNames", none_if_missing=True) or ())
        return {(str(names[i]) if i < len(names) else "") or f"p{i}": float(value) for i, value in enumerate(values)}

    @property
    def ndim(self) -> int:
        """The number of variables."""
        return self.member("fNdim")

    def __call__(self, *variables: Any) -> Any:
        """Evaluate it for numbers or arrays.

        Raises
        ------
        UnsupportedError
            The formula contains unsupported parts.
        """
        if not 0 < len(variables) <= len("xyzt"):
            raise ArgumentError(f"a formula takes 1 to 4 variables, not {len(variables)}")
        values = dict(zip("xyzt", (np.asarray(one, dtype=np.float64) for one in variables), strict=False))
        parameters = self.parameters
        try:
            compiled = self.member("fClingParameters", none_if_missing=True) is not None
            found = Formula(self.formula, list(parameters), compiled)(values, list(parameters.values()))
        except KeyError as missing:
            raise ArgumentError(f"the formula {self.formula!r} needs the variable {missing.args[0]}") from None
        except TypeError as error:  # a function has other numbers of arguments, too
            raise UnsupportedError(f"the formula {self.formula!r} cannot be evaluated: {error}") from None
        found = np.asarray(found, np.float64)
        found = np.broadcast_to(found, np.broadcast_shapes(*(one.shape for one in values.values())))
        return found.copy() if found.ndim else float(found)


@behavior("TF1", "TF2", "TF3")
class TF1(TNamed):
    """A function over a range: a formula with parameters, or the saved values of a compiled function."""

    @property
    def _formula(self) -> Any:
        """The formula: a member since ROOT 6.04, a base before; None for a compiled function."""
        inner = self.member("fFormula", none_if_missing=True)
        if isinstance(inner, TFormula):
            return inner
        bases = [base for base in self.base(TFormula) if base.member("fOper", none_if_missing=True) is not None]
        return bases[0] if bases and self.member("fType", none_if_missing=True) in (None, 0) else None

    @property
    def formula(self) -> str | None:
        """The formula, in ROOT's notation; None for a compiled function."""
        found = self._formula
        return None if found is None else found.formula

    @property
    def parameters(self) -> dict[str, float]:
        """The values of the parameters, by name."""
        found = self._formula or next(iter(self.base(TFormula)), None)
        if isinstance(found, TFormula):
            return found.parameters
        stored = self.member("fParams", none_if_missing=True)
        if not isinstance(stored, Model):
            return {}
        values, names = stored.member("fParameters"), stored.member("fParNames")
        return {str(names[i]) or f"p{i}": float(value) for i, value in enumerate(values)}

    @property
    def parameter_errors(self) -> dict[str, float]:
        """The errors of the parameters after a fit, by name."""
        return dict(zip(self.parameters, (float(error) for error in self.member("fParErrors")), strict=False))

    @property
    def range(self) -> tuple[float, float]:
        """The range of x."""
        return self.member("fXmin"), self.member("fXmax")

    @property
    def chi2(self) -> float:
        """The chi-squared of the fit."""
        return self.member("fChisquare")

    @property
    def ndf(self) -> int:
        """The number of degrees of freedom of the fit."""
        return self.member("fNDF")

    def __call__(self, *variables: Any) -> Any:
        """Evaluate it for numbers or arrays.

        A compiled function is known only by the values that ROOT saved. Between them, the result is interpolated;
        outside their range, it is zero.

        Raises
        ------
        UnsupportedError
            The formula contains unsupported parts, and no values were saved.
        """
        found = self._formula
        saved = self.member("fSave", none_if_missing=True)
        saved = np.zeros(0) if saved is None else np.asarray(saved)
        if found is not None:
            try:
                return found(*variables)
            except UnsupportedError:
                if not len(saved):
                    raise
        composition = self.member("fComposition", none_if_missing=True)
        if isinstance(composition, Model) and len(saved) <= 3:
            raise UnsupportedError(
                f"{self!r} combines other functions by integrals ({composition.classname}): these are not supported, "
                "and ROOT saved no values of it"
            )
        if len(saved) <= 3 or len(variables) != 1:
            raise UnsupportedError(f"{self!r} was made from code, and ROOT saved no values of it")
        # The values at equal distances, then the range (TF1::Save).
        low, high = saved[-2], saved[-1]
        x = np.asarray(variables[0], dtype=np.float64)
        result = np.interp(x, np.linspace(low, high, len(saved) - 2), saved[:-2], left=0.0, right=0.0)
        return result if x.ndim else float(result)


@behavior("TSpline")
class TSpline(TNamed):
    """A spline: polynomials between knots."""

    _coefficients: tuple[str, ...] = ()
    _beyond = 2  # which polynomial, from the end, goes on beyond the last knot

    @property
    def knots(self) -> tuple[Array, Array]:
        """The x and y of the knots."""
        pieces = self.member("fPoly")
        return tuple(np.array([piece.member(name) for piece in pieces], dtype=np.float64) for name in ("fX", "fY"))  # pyright: ignore[reportReturnType]

    def __call__(self, x: Any) -> Any:
        """Evaluate it for a number or an array; beyond the knots, the outermost polynomials continue."""
        pieces = self.member("fPoly")
        knots, _ = self.knots
        table = np.array([[piece.member(name) for name in ("fY", *self._coefficients)] for piece in pieces])
        points = np.asarray(x, dtype=np.float64)
        last = max(len(knots) - self._beyond, 0)
        place = np.clip(np.searchsorted(knots, points, side="right") - 1, 0, last)
        step = points - knots[place]
        result = np.zeros(points.shape)
        for column in reversed(range(table.shape[1])):
            result = result * step + table[place, column]
        return result if points.ndim else float(result)


@behavior("TSpline3")
class TSpline3(TSpline):
    """A spline of polynomials of third order."""

    _coefficients = ("fB", "fC", "fD")


@behavior("TSpline5")
class TSpline5(TSpline):
    """A spline of polynomials of fifth order."""

    _coefficients = ("fB", "fC", "fD", "fE", "fF")
    _beyond = 1
