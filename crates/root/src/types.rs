//! The one table of number types: how each is called in C++, in files, in `NumPy`.

/// A fixed-width element as it lies in memory (native byte order).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Number {
    /// One byte, 0 or 1.
    Bool,
    /// 8-bit signed.
    I8,
    /// 8-bit unsigned.
    U8,
    /// 16-bit signed.
    I16,
    /// 16-bit unsigned.
    U16,
    /// 32-bit signed.
    I32,
    /// 32-bit unsigned.
    U32,
    /// 64-bit signed.
    I64,
    /// 64-bit unsigned.
    U64,
    /// IEEE single precision.
    F32,
    /// IEEE double precision.
    F64,
}

/// A row of the table.
struct NumberType {
    /// Name in `NumPy`.
    dtype: &'static str,
    /// Name as users of Python readers know it.
    short: &'static str,
    /// Name in declarations that are written.
    declared: &'static str,
    /// Other names in C++ and ROOT.
    names: &'static [&'static str],
    /// Type codes (`TVirtualStreamerInfo::EReadWrite`); the first one is written.
    codes: &'static [i32],
    /// Classes of leaves; the first one is written.
    leaves: &'static [&'static str],
    /// Letter in the title of a leaf.
    letter: char,
    /// Classes of arrays.
    arrays: &'static [&'static str],
}

impl Number {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Bool,
        Self::I8,
        Self::U8,
        Self::I16,
        Self::U16,
        Self::I32,
        Self::U32,
        Self::I64,
        Self::U64,
        Self::F32,
        Self::F64,
    ];

    #[allow(clippy::too_many_lines, reason = "a table")]
    const fn row(self) -> NumberType {
        match self {
            Self::Bool => NumberType {
                dtype: "bool",
                short: "bool",
                declared: "bool",
                names: &["Bool_t"],
                codes: &[18],
                leaves: &["TLeafO"],
                letter: 'O',
                arrays: &[],
            },
            Self::I8 => NumberType {
                dtype: "int8",
                short: "int8_t",
                declared: "char",
                names: &["Char_t", "signed char"],
                codes: &[1, 10],
                leaves: &["TLeafB"],
                letter: 'B',
                arrays: &["TArrayC"],
            },
            Self::U8 => NumberType {
                dtype: "uint8",
                short: "uint8_t",
                declared: "unsigned char",
                names: &["UChar_t", "Byte_t", "byte"],
                codes: &[11],
                leaves: &["TLeafB"],
                letter: 'b',
                arrays: &[],
            },
            Self::I16 => NumberType {
                dtype: "int16",
                short: "int16_t",
                declared: "short",
                names: &["Short_t", "short int"],
                codes: &[2],
                leaves: &["TLeafS"],
                letter: 'S',
                arrays: &["TArrayS"],
            },
            Self::U16 => NumberType {
                dtype: "uint16",
                short: "uint16_t",
                declared: "unsigned short",
                names: &["UShort_t", "Version_t", "unsigned short int"],
                codes: &[12],
                leaves: &["TLeafS"],
                letter: 's',
                arrays: &[],
            },
            Self::I32 => NumberType {
                dtype: "int32",
                short: "int32_t",
                declared: "int",
                names: &["Int_t", "signed int", "Seek_t"],
                codes: &[3],
                leaves: &["TLeafI"],
                letter: 'I',
                arrays: &["TArrayI"],
            },
            Self::U32 => NumberType {
                dtype: "uint32",
                short: "uint32_t",
                declared: "unsigned int",
                names: &["unsigned", "UInt_t"],
                // A counter is an int in memory; readers of Python know it as unsigned in trees.
                codes: &[13, 6, 15],
                leaves: &["TLeafI"],
                letter: 'i',
                arrays: &[],
            },
            Self::I64 => NumberType {
                dtype: "int64",
                short: "int64_t",
                declared: "Long64_t",
                names: &["long", "Long_t", "long long", "long int", "long long int"],
                codes: &[16, 4],
                leaves: &["TLeafL", "TLeafG"],
                letter: 'L',
                arrays: &["TArrayL", "TArrayL64"],
            },
            Self::U64 => NumberType {
                dtype: "uint64",
                short: "uint64_t",
                declared: "ULong64_t",
                names: &[
                    "unsigned long",
                    "ULong_t",
                    "unsigned long long",
                    "size_t",
                    "unsigned long int",
                    "unsigned long long int",
                ],
                codes: &[17, 14],
                leaves: &["TLeafL", "TLeafG"],
                letter: 'l',
                arrays: &[],
            },
            Self::F32 => NumberType {
                dtype: "float32",
                short: "float",
                declared: "float",
                names: &["Float_t", "Size_t"],
                codes: &[5],
                leaves: &["TLeafF"],
                letter: 'F',
                arrays: &["TArrayF"],
            },
            Self::F64 => NumberType {
                dtype: "float64",
                short: "double",
                declared: "double",
                names: &["Double_t", "Axis_t", "Stat_t"],
                codes: &[8],
                leaves: &["TLeafD"],
                letter: 'D',
                arrays: &["TArrayD"],
            },
        }
    }

    /// Bytes an element takes in memory.
    pub const fn size(self) -> usize {
        match self {
            Self::Bool | Self::I8 | Self::U8 => 1,
            Self::I16 | Self::U16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::U64 | Self::F64 => 8,
        }
    }
    /// Whether it is an integer without a sign.
    pub const fn is_unsigned(self) -> bool {
        matches!(self, Self::U8 | Self::U16 | Self::U32 | Self::U64)
    }
    /// Name in `NumPy`.
    pub const fn dtype(self) -> &'static str {
        self.row().dtype
    }
    /// Name in type names, as users of Python readers know it.
    pub const fn short_name(self) -> &'static str {
        self.row().short
    }
    /// Name in declarations, spelt as ROOT does.
    pub const fn declared(self) -> &'static str {
        self.row().declared
    }
    /// All its names in C++ and ROOT; the first one is written in declarations.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        let row = self.row();
        [row.declared, row.short].into_iter().chain(row.names.iter().copied())
    }
    /// All its type codes; the first one is written.
    pub const fn codes(self) -> &'static [i32] {
        self.row().codes
    }
    /// Its type code (`TVirtualStreamerInfo::EReadWrite`).
    pub fn code(self) -> i32 {
        self.row().codes.first().copied().unwrap_or_default()
    }
    /// Class of its leaves, and the letter in their titles.
    pub fn leaf(self) -> (&'static str, char) {
        (self.row().leaves.first().copied().unwrap_or_default(), self.row().letter)
    }

    fn find(is: impl Fn(&NumberType) -> bool) -> Option<Self> {
        Self::ALL.into_iter().find(|number| is(&number.row()))
    }
    /// The number of a name in `NumPy`.
    pub fn of_dtype(name: &str) -> Option<Self> {
        Self::find(|row| row.dtype == name)
    }
    /// The number type of a C++ or ROOT name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|number| number.names().any(|known| known == name))
    }
    /// The number type of a basic type code.
    pub fn of_code(code: i32) -> Option<Self> {
        Self::find(|row| row.codes.contains(&code))
    }
    /// The number in leaves of a class.
    pub fn of_leaf(class: &str, unsigned: bool) -> Option<Self> {
        let found = Self::ALL.into_iter().filter(|number| number.row().leaves.contains(&class));
        found.min_by_key(|number| number.is_unsigned() != unsigned)
    }
    /// The number in arrays of a class.
    pub fn of_array(class: &str) -> Option<Self> {
        Self::find(|row| row.arrays.contains(&class))
    }
}

#[cfg(test)]
mod tests {
    use super::Number;

    #[test]
    fn every_number_is_found_by_each_of_its_names() {
        for number in Number::ALL {
            let (leaf, letter) = number.leaf();
            assert_eq!(Number::of_dtype(number.dtype()), Some(number));
            assert_eq!(Number::of_name(number.short_name()), Some(number));
            assert_eq!(Number::of_name(number.declared()), Some(number));
            assert_eq!(Number::of_code(number.code()), Some(number));
            assert_eq!(Number::of_leaf(leaf, number.is_unsigned()), Some(number));
            assert_eq!(letter.is_lowercase(), number.is_unsigned());
        }
        let mut codes: Vec<i32> = (0..20).filter(|&code| Number::of_code(code).is_some()).collect();
        codes.retain(|&code| Number::of_code(code).is_some_and(|number| number.code() != code));
        assert_eq!(codes, [4, 6, 10, 14, 15]);
        // Floats and bools have leaves of one kind, whatever their flag says.
        assert_eq!(Number::of_leaf("TLeafF", true), Some(Number::F32));
        assert_eq!(Number::of_leaf("TLeafG", true), Some(Number::U64));
        assert_eq!(Number::of_leaf("TLeafC", false), None);
        assert_eq!((Number::of_array("TArrayL64"), Number::of_array("TArray")), (Some(Number::I64), None));
        assert_eq!((Number::of_name("Version_t"), Number::of_name("Color_t")), (Some(Number::U16), None));
    }
}
