//! Parsing C++ type names, as far as ROOT streams them.

use crate::array::Number;
use crate::error::{Error, Result};
use std::fmt;

/// A parsed type.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Cpp {
    /// A number of fixed width.
    Number(Number),
    /// `Double32_t`.
    Double32,
    /// `Float16_t`.
    Float16,
    /// `std::string`.
    Text,
    /// `TString`.
    TString,
    /// `std::bitset` of this many bits.
    Bits(usize),
    /// Any container of single elements.
    List(Box<Cpp>),
    /// Any container of keys and values.
    Map(Box<Cpp>, Box<Cpp>),
    /// `std::pair`.
    Pair(Box<Cpp>, Box<Cpp>),
    /// A pointer.
    Pointer(Box<Cpp>),
    /// Any other class.
    Class(String),
}

impl fmt::Display for Cpp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => f.write_str(number.declared()),
            Self::Double32 => f.write_str("Double32_t"),
            Self::Float16 => f.write_str("Float16_t"),
            Self::Text => f.write_str("string"),
            Self::TString => f.write_str("TString"),
            Self::Bits(size) => write!(f, "bitset<{size}>"),
            Self::List(item) => write!(f, "list of {item}"),
            Self::Map(key, value) => write!(f, "map of {key} to {value}"),
            Self::Pair(first, second) => write!(f, "pair<{first},{second}>"),
            Self::Pointer(pointee) => write!(f, "{pointee}*"),
            Self::Class(name) => f.write_str(name),
        }
    }
}

impl Cpp {
    /// Whether it has a version header of its own as a member.
    pub fn is_container(&self) -> bool {
        matches!(self, Self::List(_) | Self::Map(..) | Self::Bits(_))
    }
}

/// Maximum nesting depth of templates; deeper names are refused.
pub const DEEPEST: usize = 32;

/// Parses a type name. Names that are neither a number nor a container are classes.
pub fn parse(name: &str) -> Result<Cpp> {
    parse_at(name, 0)
}

fn parse_at(name: &str, depth: usize) -> Result<Cpp> {
    if depth > DEEPEST {
        return Err(Error::limit(format!("a type name nested deeper than {DEEPEST}")));
    }
    let name = simplify(name);
    if let Some(pointee) = name.strip_suffix('*') {
        return match pointee.trim_end() {
            "char" | "Char_t" => Ok(Cpp::Text),
            pointee => Ok(match parse_at(pointee, depth + 1)? {
                // Strings are streamed as such; a missing string as an empty one.
                Cpp::Text => Cpp::Text,
                pointee => Cpp::Pointer(Box::new(pointee)),
            }),
        };
    }
    if let Some(number) = Number::of_name(name) {
        return Ok(Cpp::Number(number));
    }
    match name {
        "Double32_t" => return Ok(Cpp::Double32),
        "Float16_t" => return Ok(Cpp::Float16),
        "string" | "basic_string<char>" => return Ok(Cpp::Text),
        "TString" => return Ok(Cpp::TString),
        _ => {}
    }
    let Some((template, rest)) = name.split_once('<') else { return Ok(Cpp::Class(name.to_owned())) };
    // A class nested in a template is not a container.
    if let Some((_, member)) = rest.rsplit_once('>')
        && member.starts_with("::")
        && rest.matches('<').count() + 1 == rest.matches('>').count()
    {
        return Ok(Cpp::Class(name.to_owned()));
    }
    let Some(inside) = rest.strip_suffix('>') else {
        return Err(Error::corrupt(format!("type name {name:?} has unbalanced brackets")));
    };
    let arguments = split(inside)?;
    let argument = |i: usize| {
        let text = arguments.get(i).copied().filter(|a| !a.is_empty());
        let text = text.ok_or_else(|| Error::corrupt(format!("type name {name:?} lacks an argument")))?;
        parse_at(text, depth + 1).map(Box::new)
    };
    match simplify(template) {
        "vector" | "list" | "deque" | "set" | "multiset" | "unordered_set" | "unordered_multiset"
        | "forward_list" | "ROOT::VecOps::RVec" | "ROOT::RVec" | "RVec" => Ok(Cpp::List(argument(0)?)),
        "map" | "multimap" | "unordered_map" | "unordered_multimap" => {
            Ok(Cpp::Map(argument(0)?, argument(1)?))
        }
        "pair" => Ok(Cpp::Pair(argument(0)?, argument(1)?)),
        "bitset" => {
            let bits =
                arguments.first().and_then(|a| a.trim().trim_end_matches(['u', 'l', 'U', 'L']).parse().ok());
            let bits =
                bits.ok_or_else(|| Error::corrupt(format!("type name {name:?} lacks a number of bits")))?;
            Ok(Cpp::Bits(bits))
        }
        _ => Ok(Cpp::Class(name.to_owned())),
    }
}

/// Whether a type name is a container with a version header of its own as a member.
pub fn is_container(name: &str) -> bool {
    parse(name).is_ok_and(|cpp| cpp.is_container())
}

/// Returns the usual spelling of a type, as in Python readers of ROOT files.
pub fn usual(name: &str) -> String {
    let plain = simplify(name);
    let arguments = plain
        .split_once('<')
        .and_then(|(template, rest)| Some((simplify(template), split(rest.strip_suffix('>')?).ok()?)));
    match (parse(plain), arguments) {
        (Ok(Cpp::List(_)), Some((template @ ("vector" | "set" | "list"), arguments))) => {
            format!("std::{template}<{}>", arguments.first().copied().map(usual).unwrap_or_default())
        }
        (Ok(Cpp::List(_)), Some((template, arguments))) if template.ends_with("RVec") => {
            format!("RVec<{}>", arguments.first().copied().map(usual).unwrap_or_default())
        }
        (Ok(Cpp::Map(..)), Some(("map", arguments))) => {
            let halves: Vec<String> = arguments.iter().take(2).map(|name| usual(name)).collect();
            format!("std::map<{}>", halves.join(", "))
        }
        (Ok(Cpp::Number(number)), _) => number.short_name().to_owned(),
        (Ok(Cpp::Double32), _) => "Double32_t".to_owned(),
        (Ok(Cpp::Float16), _) => "Float16_t".to_owned(),
        (Ok(Cpp::Text), _) => "std::string".to_owned(),
        (Ok(Cpp::TString), _) => "TString".to_owned(),
        (Ok(Cpp::Bits(n)), _) => format!("std::bitset<{n}>"),
        (Ok(Cpp::Pointer(_)), _) => format!("{}*", usual(plain.trim_end_matches('*').trim_end())),
        // Other containers, pairs and classes keep the name in the file.
        _ => plain.replace("> >", ">>").replace("> >", ">>"),
    }
}

/// Strips `std::`, qualifiers and surrounding spaces.
pub fn simplify(mut name: &str) -> &str {
    loop {
        let before = name;
        name = name.trim();
        for prefix in ["const ", "std::", "struct ", "class ", "enum "] {
            name = name.strip_prefix(prefix).unwrap_or(name);
        }
        name = name.strip_suffix(" const").unwrap_or(name);
        if name == before {
            return name;
        }
    }
}

/// Splits the argument list of a template at its outermost level.
pub fn split(inside: &str) -> Result<Vec<&str>> {
    let (mut depth, mut start, mut parts) = (0i32, 0, Vec::new());
    for (i, c) in inside.char_indices() {
        match c {
            '<' | '(' | '[' => depth += 1,
            '>' | ')' | ']' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(inside.get(start..i).unwrap_or_default().trim());
                start = i + 1;
            }
            _ => {}
        }
        if depth < 0 {
            break;
        }
    }
    if depth != 0 {
        return Err(Error::corrupt(format!("template arguments {inside:?} have unbalanced brackets")));
    }
    parts.push(inside.get(start..).unwrap_or_default().trim());
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_spellings() {
        for (name, want) in [
            ("vector<set<unsigned int> >", "std::vector<std::set<uint32_t>>"),
            ("map<int,vector<string> >", "std::map<int32_t, std::vector<std::string>>"),
            ("list<deque<int> >", "std::list<deque<int>>"),
            ("unordered_map<string,int>", "unordered_map<string,int>"),
            ("ROOT::VecOps::RVec<float>", "RVec<float>"),
            ("pair<int,vector<float> >", "pair<int,vector<float>>"),
            ("vector<Poly*>", "std::vector<Poly*>"),
            ("const char*", "std::string"),
            ("bitset<8ul>", "std::bitset<8>"),
            ("vector<", "vector<"),
        ] {
            assert_eq!(usual(name), want);
        }
    }

    #[test]
    fn names_of_the_field() {
        let list = |c| Cpp::List(Box::new(c));
        for (name, want) in [
            ("vector<float>", list(Cpp::Number(Number::F32))),
            ("std::vector<std::vector<unsigned int> >", list(list(Cpp::Number(Number::U32)))),
            ("vector<string, allocator<string> >", list(Cpp::Text)),
            ("const char*", Cpp::Text),
            ("TObject*", Cpp::Pointer(Box::new(Cpp::Class("TObject".into())))),
            ("bitset<8ul>", Cpp::Bits(8)),
            ("Box<vector<int>>::Inside", Cpp::Class("Box<vector<int>>::Inside".into())),
            (
                "map<int,pair<short,A<B,C>>>",
                Cpp::Map(
                    Box::new(Cpp::Number(Number::I32)),
                    Box::new(Cpp::Pair(
                        Box::new(Cpp::Number(Number::I16)),
                        Box::new(Cpp::Class("A<B,C>".into())),
                    )),
                ),
            ),
        ] {
            assert_eq!(parse(name).unwrap(), want, "{name}");
        }
        for bad in ["vector<", "vector<>", "map<int>", "vector<a<b>", "bitset<x>"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
        assert!(parse(&"vector<".repeat(100)).is_err());
        assert!(parse(&format!("{}int{}", "vector<".repeat(100), ">".repeat(100))).is_err());
    }
}
