//! Arithmetic, comparisons and functions of numbers; result types follow `NumPy`.

use super::trigonometry::{self, Function};
use super::value::{Cells, Constant, Element, Numbers, Value, broadcast, typed};
use crate::array::Number;
use crate::error::{Error, Result};
use std::f64::consts::LN_2;

/// Operations with one operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "NumPy's names")]
pub enum Unary {
    Negative,
    Positive,
    Invert,
    Not,
    Absolute,
    Sign,
    Floor,
    Ceil,
    Trunc,
    Rint,
    Sqrt,
    Cbrt,
    Exp,
    Exp2,
    Expm1,
    Log,
    Log2,
    Log10,
    Log1p,
    Sin,
    Cos,
    Tan,
    Arcsin,
    Arccos,
    Arctan,
    Sinh,
    Cosh,
    Tanh,
    Arcsinh,
    Arccosh,
    Arctanh,
    IsNan,
    IsInf,
    IsFinite,
    Double,
    /// Maps 64 random bits to a number in [0, 1).
    Uniform,
}

/// Operations with two operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "NumPy's names")]
pub enum Binary {
    Add,
    Subtract,
    Multiply,
    Divide,
    FloorDivide,
    Modulo,
    Power,
    And,
    Or,
    Xor,
    LogicalAnd,
    LogicalOr,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    Equal,
    NotEqual,
    Minimum,
    Maximum,
    Fmin,
    Fmax,
    Arctan2,
    Hypot,
    Copysign,
    /// Random bits derived from other random bits and a whole number.
    Scramble,
    /// The absolute value of the difference, which a program makes of two operations.
    Apart,
}

impl Unary {
    /// All operations, by their names in Python.
    pub const NAMES: &[(&str, Self)] = &[
        ("negative", Self::Negative),
        ("positive", Self::Positive),
        ("invert", Self::Invert),
        ("logical_not", Self::Not),
        ("absolute", Self::Absolute),
        ("sign", Self::Sign),
        ("floor", Self::Floor),
        ("ceil", Self::Ceil),
        ("trunc", Self::Trunc),
        ("rint", Self::Rint),
        ("sqrt", Self::Sqrt),
        ("cbrt", Self::Cbrt),
        ("exp", Self::Exp),
        ("exp2", Self::Exp2),
        ("expm1", Self::Expm1),
        ("log", Self::Log),
        ("log2", Self::Log2),
        ("log10", Self::Log10),
        ("log1p", Self::Log1p),
        ("sin", Self::Sin),
        ("cos", Self::Cos),
        ("tan", Self::Tan),
        ("arcsin", Self::Arcsin),
        ("arccos", Self::Arccos),
        ("arctan", Self::Arctan),
        ("sinh", Self::Sinh),
        ("cosh", Self::Cosh),
        ("tanh", Self::Tanh),
        ("arcsinh", Self::Arcsinh),
        ("arccosh", Self::Arccosh),
        ("arctanh", Self::Arctanh),
        ("isnan", Self::IsNan),
        ("isinf", Self::IsInf),
        ("isfinite", Self::IsFinite),
        ("double", Self::Double),
        ("uniform", Self::Uniform),
    ];
}

impl Binary {
    /// All operations, by their names in Python.
    pub const NAMES: &[(&str, Self)] = &[
        ("add", Self::Add),
        ("subtract", Self::Subtract),
        ("multiply", Self::Multiply),
        ("divide", Self::Divide),
        ("floor_divide", Self::FloorDivide),
        ("modulo", Self::Modulo),
        ("power", Self::Power),
        ("and", Self::And),
        ("or", Self::Or),
        ("xor", Self::Xor),
        ("logical_and", Self::LogicalAnd),
        ("logical_or", Self::LogicalOr),
        ("less", Self::Less),
        ("less_equal", Self::LessEqual),
        ("greater", Self::Greater),
        ("greater_equal", Self::GreaterEqual),
        ("equal", Self::Equal),
        ("not_equal", Self::NotEqual),
        ("minimum", Self::Minimum),
        ("maximum", Self::Maximum),
        ("fmin", Self::Fmin),
        ("fmax", Self::Fmax),
        ("arctan2", Self::Arctan2),
        ("hypot", Self::Hypot),
        ("copysign", Self::Copysign),
        ("scramble", Self::Scramble),
    ];
}

fn no_such(what: &str) -> Error {
    Error::unsupported(format!("the engine has no {what} for these types"))
}

/// Result type of functions that return a float; an error if `NumPy` returns half precision.
fn float_of(number: Number) -> Result<Number> {
    match number {
        Number::F32 | Number::I16 | Number::U16 => Ok(Number::F32),
        Number::F64 | Number::I32 | Number::U32 | Number::I64 | Number::U64 => Ok(Number::F64),
        Number::Bool | Number::I8 | Number::U8 => Err(no_such("half precision")),
    }
}

const fn is_float(number: Number) -> bool {
    matches!(number, Number::F32 | Number::F64)
}

/// Common type for computing with numbers of two types.
pub fn common(one: Number, other: Number) -> Number {
    if one == other || other == Number::Bool {
        return one;
    }
    if one == Number::Bool {
        return other;
    }
    if is_float(one) || is_float(other) {
        let small = |number: Number| number == Number::F32 || (!is_float(number) && number.size() <= 2);
        return if small(one) && small(other) { Number::F32 } else { Number::F64 };
    }
    let size = one.size().max(other.size());
    if one.is_unsigned() == other.is_unsigned() {
        return if one.size() >= other.size() { one } else { other };
    }
    let (unsigned, signed) = if one.is_unsigned() { (one, other) } else { (other, one) };
    if signed.size() > unsigned.size() {
        return signed;
    }
    match size {
        1 => Number::I16,
        2 => Number::I32,
        4 => Number::I64,
        _ => Number::F64,
    }
}

/// Type for computing with numbers and a constant, which has no type of its own.
fn with_constant(number: Number, constant: Constant) -> Result<Number> {
    #[allow(clippy::float_cmp, reason = "whether it is the same number")]
    match constant {
        Constant::Bool(_) => Ok(number),
        Constant::Float(_) => Ok(if is_float(number) { number } else { Number::F64 }),
        Constant::Int(_) if number == Number::Bool => Ok(Number::I64),
        Constant::Int(value) => {
            let fits =
                typed!(number, T => T::constant(Constant::Int(value)).double() == value as f64, else true);
            if fits || is_float(number) { Ok(number) } else { Err(no_such("constant that fits")) }
        }
    }
}

/// Type of numbers of which some are replaced by a constant: in contrast to arithmetic, Awkward treats the constant as
/// an array of its own type.
pub fn replaced(number: Number, constant: Constant) -> Number {
    let own = match constant {
        Constant::Bool(_) => Number::Bool,
        Constant::Int(_) => Number::I64,
        Constant::Float(_) => Number::F64,
    };
    common(number, own)
}

/// The cells of one operand, or a single cell for all.
enum Side<'v, T> {
    Cells(&'v [T]),
    One(T),
}

fn zip<T: Copy, R>(left: &Side<'_, T>, right: &Side<'_, T>, work: impl Fn(T, T) -> R) -> Vec<R> {
    match (left, right) {
        (Side::Cells(left), Side::Cells(right)) => {
            left.iter().zip(*right).map(|(&a, &b)| work(a, b)).collect()
        }
        (Side::Cells(left), &Side::One(b)) => left.iter().map(|&a| work(a, b)).collect(),
        (&Side::One(a), Side::Cells(right)) => right.iter().map(|&b| work(a, b)).collect(),
        (Side::One(a), Side::One(b)) => vec![work(*a, *b)],
    }
}

pub fn both<'a>(one: Option<&Cells<'a, u8>>, other: Option<&Cells<'a, u8>>) -> Option<Cells<'a, u8>> {
    match (one, other) {
        (Some(one), Some(other)) => {
            Some(one.iter().zip(&**other).map(|(a, b)| a & b).collect::<Vec<_>>().into())
        }
        (one, other) => one.or(other).cloned(),
    }
}

/// Computes an operation with two operands.
pub fn binary<'a>(what: Binary, left: &Value<'a>, right: &Value<'a>) -> Result<Value<'a>> {
    broadcast(&[left, right], &mut |values| match values {
        [Value::Numbers(left, here), Value::Numbers(right, there)] => {
            let number = common(left.number(), right.number());
            let found = pair(what, number, Operand::Of(left), Operand::Of(right))?;
            Ok(Value::Numbers(found, both(here.as_ref(), there.as_ref())))
        }
        [Value::Numbers(left, there), Value::Constant(right)] => {
            let number = with_constant(left.number(), *right)?;
            Ok(Value::Numbers(pair(what, number, Operand::Of(left), Operand::One(*right))?, there.clone()))
        }
        [Value::Constant(left), Value::Numbers(right, there)] => {
            let number = with_constant(right.number(), *left)?;
            Ok(Value::Numbers(pair(what, number, Operand::One(*left), Operand::Of(right))?, there.clone()))
        }
        _ => Err(no_such("operation of constants")),
    })
}

#[derive(Clone, Copy)]
enum Operand<'v, 'a> {
    Of(&'v Numbers<'a>),
    One(Constant),
}

impl Operand<'_, '_> {
    fn with<T: Element, R>(self, work: impl FnOnce(Side<'_, T>) -> R) -> R {
        match self {
            Self::Of(numbers) => work(Side::Cells(&T::of(numbers))),
            Self::One(constant) => work(Side::One(T::constant(constant))),
        }
    }
    fn truths<R>(self, work: impl FnOnce(Side<'_, u8>) -> R) -> R {
        match self {
            Self::Of(numbers) => work(Side::Cells(&numbers.truths())),
            Self::One(constant) => work(Side::One(u8::from(f64::constant(constant) != 0.0))),
        }
    }
    fn is_float(self) -> bool {
        match self {
            Self::Of(numbers) => is_float(numbers.number()),
            Self::One(constant) => matches!(constant, Constant::Float(_)),
        }
    }
    fn is_mixed(self, other: Self) -> bool {
        let (Self::Of(one), Self::Of(other)) = (self, other) else { return false };
        !is_float(one.number()) && !is_float(other.number())
    }
}

fn arithmetic<'a, T: Element>(
    left: Operand<'_, 'a>,
    right: Operand<'_, 'a>,
    work: impl Fn(T, T) -> T,
) -> Numbers<'a> {
    T::wrap(left.with(|left| right.with(|right| zip(&left, &right, work))).into())
}

fn remainders<'a, T: Element>(left: Operand<'_, 'a>, right: Operand<'_, 'a>) -> Numbers<'a> {
    let within = left.with(|left: Side<'_, T>| {
        right.with(|right| match (&left, &right) {
            (Side::Cells(left), &Side::One(right)) => left.iter().all(|cell| cell.is_within(right)),
            _ => false,
        })
    });
    if within {
        arithmetic::<T>(left, right, T::near_modulo)
    } else {
        arithmetic::<T>(left, right, T::modulo)
    }
}

fn comparison<'a, T: Element>(
    left: Operand<'_, 'a>,
    right: Operand<'_, 'a>,
    work: impl Fn(T, T) -> bool,
) -> Numbers<'a> {
    Numbers::Bool(
        left.with(|left| right.with(|right| zip(&left, &right, |a, b| u8::from(work(a, b))))).into(),
    )
}

fn logic<'a>(left: Operand<'_, 'a>, right: Operand<'_, 'a>, work: impl Fn(u8, u8) -> u8) -> Numbers<'a> {
    Numbers::Bool(left.truths(|left| right.truths(|right| zip(&left, &right, work))).into())
}

#[allow(clippy::float_cmp, reason = "as NumPy compares")]
fn pair<'a>(
    what: Binary,
    number: Number,
    left: Operand<'_, 'a>,
    right: Operand<'_, 'a>,
) -> Result<Numbers<'a>> {
    use Binary as B;
    if number == Number::F64
        && left.is_mixed(right)
        && matches!(what, B::Less | B::LessEqual | B::Greater | B::GreaterEqual | B::Equal | B::NotEqual)
    {
        return Err(no_such("comparison"));
    }
    Ok(match what {
        B::Add
        | B::Subtract
        | B::Multiply
        | B::FloorDivide
        | B::Modulo
        | B::Minimum
        | B::Maximum
        | B::Fmin
        | B::Fmax => {
            typed!(number, T => match what {
                B::Add => arithmetic::<T>(left, right, T::plus),
                B::Subtract => arithmetic::<T>(left, right, T::minus),
                B::Multiply => arithmetic::<T>(left, right, T::times),
                B::FloorDivide => arithmetic::<T>(left, right, T::floor_divided),
                B::Modulo => remainders::<T>(left, right),
                B::Minimum => arithmetic::<T>(left, right, |a, b| if a < b || a.is_nan() { a } else { b }),
                B::Maximum => arithmetic::<T>(left, right, |a, b| if a > b || a.is_nan() { a } else { b }),
                B::Fmin => arithmetic::<T>(left, right, |a, b| if a < b || b.is_nan() { a } else { b }),
                _ => arithmetic::<T>(left, right, |a, b| if a > b || b.is_nan() { a } else { b }),
            }, else match what {
                B::Add => logic(left, right, |a, b| a | b),
                B::Multiply => logic(left, right, |a, b| a & b),
                _ => return Err(no_such("such operation")),
            })
        }
        B::Less | B::LessEqual | B::Greater | B::GreaterEqual | B::Equal | B::NotEqual => {
            typed!(number, T => match what {
                B::Less => comparison::<T>(left, right, |a, b| a < b),
                B::LessEqual => comparison::<T>(left, right, |a, b| a <= b),
                B::Greater => comparison::<T>(left, right, |a, b| a > b),
                B::GreaterEqual => comparison::<T>(left, right, |a, b| a >= b),
                B::Equal => comparison::<T>(left, right, |a, b| a == b),
                _ => comparison::<T>(left, right, |a, b| a != b),
            }, else match what {
                B::Less => logic(left, right, |a, b| u8::from(a < b)),
                B::LessEqual => logic(left, right, |a, b| u8::from(a <= b)),
                B::Greater => logic(left, right, |a, b| u8::from(a > b)),
                B::GreaterEqual => logic(left, right, |a, b| u8::from(a >= b)),
                B::Equal => logic(left, right, |a, b| u8::from(a == b)),
                _ => logic(left, right, |a, b| u8::from(a != b)),
            })
        }
        B::Apart => match number {
            Number::F32 => arithmetic::<f32>(left, right, |a, b| (a - b).abs()),
            Number::F64 => arithmetic::<f64>(left, right, |a, b| (a - b).abs()),
            _ => single(Unary::Absolute, &pair(B::Subtract, number, left, right)?)?,
        },
        B::LogicalAnd => logic(left, right, |a, b| u8::from(a != 0 && b != 0)),
        B::LogicalOr => logic(left, right, |a, b| u8::from(a != 0 || b != 0)),
        B::And | B::Or | B::Xor => bits(what, number, left, right)?,
        B::Divide if is_float(number) => match number {
            Number::F32 => arithmetic::<f32>(left, right, |a, b| a / b),
            _ => arithmetic::<f64>(left, right, |a, b| a / b),
        },
        B::Divide => arithmetic::<f64>(left, right, |a, b| a / b),
        B::Scramble if left.is_float() || right.is_float() => return Err(no_such("random number")),
        B::Scramble => arithmetic::<u64>(left, right, scrambled),
        B::Power if !is_float(number) => return Err(no_such("power")),
        B::Power | B::Arctan2 | B::Hypot | B::Copysign => {
            let number = float_of_both(left, right, number)?;
            macro_rules! of {
                ($T:ident) => {
                    match what {
                        B::Power => match right {
                            Operand::One(two) if f64::constant(two) == 2.0 => {
                                arithmetic::<$T>(left, right, |a, _| a * a)
                            }
                            // Powers and roots differ for negative zero and infinity.
                            Operand::One(half) if f64::constant(half) == 0.5 => {
                                arithmetic::<$T>(left, right, |a, _| a.sqrt())
                            }
                            _ => arithmetic::<$T>(left, right, $T::powf),
                        },
                        B::Arctan2 => arithmetic::<$T>(left, right, $T::atan2),
                        B::Hypot => arithmetic::<$T>(left, right, $T::hypot),
                        _ => arithmetic::<$T>(left, right, $T::copysign),
                    }
                };
            }
            if number == Number::F32 { of!(f32) } else { of!(f64) }
        }
    })
}

/// Result type of a function of two numbers that returns a float: the least precise one that holds both types.
fn float_of_both(left: Operand<'_, '_>, right: Operand<'_, '_>, number: Number) -> Result<Number> {
    let (Operand::Of(one), Operand::Of(other)) = (left, right) else { return float_of(number) };
    if is_float(number) {
        return Ok(number);
    }
    match (float_of(one.number()), float_of(other.number())) {
        (Ok(Number::F64), _) | (_, Ok(Number::F64)) => Ok(Number::F64),
        (Ok(number), _) | (_, Ok(number)) => Ok(number),
        (error, _) => error,
    }
}

/// Two to the power of 53: number of equally spaced doubles from 0 to 1.
const TWO_53: f64 = 9_007_199_254_740_992.0;

/// Mixes all bits of both: the step of the generator `SplitMix64`.
fn scrambled(state: u64, value: u64) -> u64 {
    let z = (state ^ value).wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn bits<'a>(
    what: Binary,
    number: Number,
    left: Operand<'_, 'a>,
    right: Operand<'_, 'a>,
) -> Result<Numbers<'a>> {
    macro_rules! of {
        ($T:ident) => {
            match what {
                Binary::And => arithmetic::<$T>(left, right, |a, b| a & b),
                Binary::Or => arithmetic::<$T>(left, right, |a, b| a | b),
                _ => arithmetic::<$T>(left, right, |a, b| a ^ b),
            }
        };
    }
    Ok(match number {
        Number::Bool => match what {
            Binary::And => logic(left, right, |a, b| a & b),
            Binary::Or => logic(left, right, |a, b| a | b),
            _ => logic(left, right, |a, b| a ^ b),
        },
        Number::I8 => of!(i8),
        Number::U8 => of!(u8),
        Number::I16 => of!(i16),
        Number::U16 => of!(u16),
        Number::I32 => of!(i32),
        Number::U32 => of!(u32),
        Number::I64 => of!(i64),
        Number::U64 => of!(u64),
        Number::F32 | Number::F64 => return Err(no_such("bits")),
    })
}

fn mapped<'a, T: Element, R: Element>(numbers: &Numbers<'a>, work: impl Fn(T) -> R) -> Numbers<'a> {
    R::wrap(T::of(numbers).iter().map(|&cell| work(cell)).collect::<Vec<R>>().into())
}

fn tested<'a, T: Element>(numbers: &Numbers<'a>, work: impl Fn(T) -> bool) -> Numbers<'a> {
    Numbers::Bool(T::of(numbers).iter().map(|&cell| u8::from(work(cell))).collect::<Vec<u8>>().into())
}

/// Computes an operation with one operand.
pub fn unary<'a>(what: Unary, of: &Value<'a>) -> Result<Value<'a>> {
    broadcast(&[of], &mut |values| match values {
        [Value::Numbers(numbers, there)] => Ok(Value::Numbers(single(what, numbers)?, there.clone())),
        _ => Err(no_such("operation of a constant")),
    })
}

/// Computes a component of vectors from their magnitude and an angle.
pub fn component<'a>(what: Function, size: &Value<'a>, angle: &Value<'a>) -> Result<Value<'a>> {
    broadcast(&[size, angle], &mut |values| match values {
        [Value::Numbers(size, here), Value::Numbers(angle, there)] => Ok(Value::Numbers(
            f64::wrap(trigonometry::component(what, size, angle).into()),
            both(here.as_ref(), there.as_ref()),
        )),
        _ => Err(no_such("component of constants")),
    })
}

/// Computes the energies of vectors from their mass and components.
pub fn energy<'a>(parts: &[&Value<'a>]) -> Result<Value<'a>> {
    broadcast(parts, &mut |values| match values {
        [
            Value::Numbers(mass, here),
            Value::Numbers(Numbers::F64(x), there),
            Value::Numbers(Numbers::F64(y), _),
            Value::Numbers(Numbers::F64(z), also),
        ] => {
            let there = both(both(here.as_ref(), there.as_ref()).as_ref(), also.as_ref());
            Ok(Value::Numbers(f64::wrap(trigonometry::energies(mass, [x, y, z]).into()), there))
        }
        _ => Err(no_such("energy")),
    })
}

fn single<'a>(what: Unary, numbers: &Numbers<'a>) -> Result<Numbers<'a>> {
    use Unary as U;
    let number = numbers.number();
    Ok(match what {
        U::Positive if number != Number::Bool => numbers.clone(),
        U::Double => f64::wrap(f64::of(numbers)),
        U::Uniform if number == Number::U64 => {
            mapped::<u64, f64>(numbers, |bits| (bits >> 11) as f64 / TWO_53)
        }
        U::Uniform => return Err(no_such("random number")),
        U::Not => {
            Numbers::Bool(numbers.truths().iter().map(|&cell| u8::from(cell == 0)).collect::<Vec<_>>().into())
        }
        U::Invert if number == Number::Bool => return single(U::Not, numbers),
        U::Invert if !is_float(number) => {
            let ones = Constant::Int(if number.is_unsigned() { 0 } else { -1 });
            if number.is_unsigned() {
                return Err(no_such("inversion"));
            }
            return bits(Binary::Xor, number, Operand::Of(numbers), Operand::One(ones));
        }
        U::Negative | U::Absolute => typed!(number, T => match what {
            _ if is_float(number) => return float_single(what, number, numbers),
            U::Negative => mapped::<T, T>(numbers, |a| T::default().minus(a)),
            _ => mapped::<T, T>(numbers, |a| if a < T::default() { T::default().minus(a) } else { a }),
        }, else if what == U::Absolute { numbers.clone() } else { return Err(no_such("negative")) }),
        U::Sign if !is_float(number) => return Err(no_such("sign")),
        U::IsNan | U::IsInf | U::IsFinite if is_float(number) => match (what, number) {
            (U::IsNan, Number::F32) => tested::<f32>(numbers, f32::is_nan),
            (U::IsNan, _) => tested::<f64>(numbers, f64::is_nan),
            (U::IsInf, Number::F32) => tested::<f32>(numbers, f32::is_infinite),
            (U::IsInf, _) => tested::<f64>(numbers, f64::is_infinite),
            (_, Number::F32) => tested::<f32>(numbers, f32::is_finite),
            _ => tested::<f64>(numbers, f64::is_finite),
        },
        U::Floor | U::Ceil | U::Trunc if !is_float(number) && number != Number::Bool => numbers.clone(),
        U::Positive | U::Invert | U::IsNan | U::IsInf | U::IsFinite => return Err(no_such("such operation")),
        _ => return float_single(what, float_of(number)?, numbers),
    })
}

fn float_single<'a>(what: Unary, number: Number, numbers: &Numbers<'a>) -> Result<Numbers<'a>> {
    use Unary as U;
    if number == Number::F64
        && let Some(function) = match what {
            U::Sin => Some(Function::Sine),
            U::Cos => Some(Function::Cosine),
            U::Sinh => Some(Function::Hyperbolic),
            _ => None,
        }
    {
        return Ok(f64::wrap(trigonometry::each(function, &f64::of(numbers)).into()));
    }
    macro_rules! of {
        ($T:ident) => {{
            let work: fn($T) -> $T = match what {
                // Vectorizable operations have a loop of their own.
                U::Negative => return Ok(mapped::<$T, $T>(numbers, |a| -a)),
                U::Absolute => return Ok(mapped::<$T, $T>(numbers, $T::abs)),
                U::Sqrt => return Ok(mapped::<$T, $T>(numbers, $T::sqrt)),
                U::Sign => |a| if a.is_nan() || a == 0.0 { a + 0.0 } else { a.signum() },
                U::Floor => $T::floor,
                U::Ceil => $T::ceil,
                U::Trunc => $T::trunc,
                U::Rint => $T::round_ties_even,
                U::Cbrt => $T::cbrt,
                U::Exp => $T::exp,
                U::Exp2 => $T::exp2,
                U::Expm1 => $T::exp_m1,
                U::Log => $T::ln,
                U::Log2 => $T::log2,
                U::Log10 => $T::log10,
                U::Log1p => $T::ln_1p,
                U::Sin => $T::sin,
                U::Cos => $T::cos,
                U::Tan => $T::tan,
                U::Arcsin => $T::asin,
                U::Arccos => $T::acos,
                U::Arctan => $T::atan,
                U::Sinh => $T::sinh,
                U::Cosh => $T::cosh,
                U::Tanh => $T::tanh,
                U::Arcsinh => |a| asinh(f64::from(a)) as $T,
                U::Arccosh => |a| acosh(f64::from(a)) as $T,
                U::Arctanh => $T::atanh,
                _ => return Err(no_such("such function")),
            };
            mapped::<$T, $T>(numbers, work)
        }};
    }
    Ok(if number == Number::F32 { of!(f32) } else { of!(f64) })
}

/// For larger x, asinh(x) and acosh(x) are ln(2 x) to the last digit.
const LARGE: f64 = 1e9;

/// The inverse hyperbolic sine. `f64::asinh` is infinite from about 9e307 on.
pub fn asinh(x: f64) -> f64 {
    if x.abs() > LARGE { (x.abs().ln() + LN_2).copysign(x) } else { x.asinh() }
}

/// The inverse hyperbolic cosine. `f64::acosh` is infinite from about 9e307 on.
pub fn acosh(x: f64) -> f64 {
    if x > LARGE { x.ln() + LN_2 } else { x.acosh() }
}

/// Returns, for each pair, the first value if the condition is true, otherwise the second.
pub fn choose<'a>(condition: &Value<'a>, yes: &Value<'a>, no: &Value<'a>) -> Result<Value<'a>> {
    broadcast(&[condition, yes, no], &mut |values| {
        let [Value::Numbers(condition, None), yes, no] = values else { return Err(no_such("condition")) };
        let number = match (yes, no) {
            (Value::Numbers(yes, None), Value::Numbers(no, None)) => common(yes.number(), no.number()),
            (Value::Numbers(some, None), Value::Constant(one))
            | (Value::Constant(one), Value::Numbers(some, None)) => replaced(some.number(), *one),
            _ => return Err(no_such("choice")),
        };
        let truths = condition.truths();
        let of = |value: &Value<'a>| match value {
            Value::Numbers(numbers, _) => Ok(numbers.clone()),
            Value::Constant(constant) => {
                let length = truths.len();
                Ok(typed!(number, T => T::wrap(vec![T::constant(*constant); length].into()),
                    else Numbers::Bool(vec![u8::from(f64::constant(*constant) != 0.0); length].into())))
            }
            Value::Lists(..) => Err(no_such("choice")),
        };
        let (yes, no) = (of(yes)?, of(no)?);
        Ok(Value::Numbers(
            typed!(number, T => {
                let (yes, no) = (T::of(&yes), T::of(&no));
                let cells = truths.iter().zip(yes.iter().zip(no.iter()));
                T::wrap(cells.map(|(&truth, (&yes, &no))| if truth != 0 { yes } else { no }).collect::<Vec<T>>().into())
            }, else {
                let (yes, no) = (yes.truths(), no.truths());
                let cells = truths.iter().zip(yes.iter().zip(no.iter()));
                Numbers::Bool(cells.map(|(&truth, (&yes, &no))| if truth != 0 { yes } else { no }).collect::<Vec<_>>().into())
            }),
            None,
        ))
    })
}
