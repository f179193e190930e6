//! The I/O characteristic of a bank: which words are integers, floats, doubles, text.

use super::words::Words;
use crate::error::Result;

/// The type of a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Bits, or unknown.
    Bits,
    /// Signed integer.
    Int,
    /// IEEE single precision.
    Float,
    /// IEEE double precision, two words.
    Double,
    /// Four characters.
    Text,
    /// A count of the words that follow (`*` and `S` sectors).
    Control,
    /// Not described by the characteristic.
    Unused,
}

impl Kind {
    fn of(code: u32) -> Option<Self> {
        Some(match code {
            1 => Self::Bits,
            2 => Self::Int,
            3 => Self::Float,
            4 => Self::Double,
            5 => Self::Text,
            _ => return None,
        })
    }
    /// Returns the letter in a format such as `2I -F`.
    pub fn letter(self) -> char {
        match self {
            Self::Bits => 'B',
            Self::Int => 'I',
            Self::Float => 'F',
            Self::Double => 'D',
            Self::Text => 'H',
            Self::Control => 'C',
            Self::Unused => '0',
        }
    }
}

/// Number of words in a sector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Count {
    Fixed(u32),
    /// Given by a control word before the sector; written as a count of 0.
    Dynamic,
    /// All remaining words.
    Rest,
}

/// Code of a self-describing sector.
const SELF_DESCRIBING: u32 = 7;

/// Sectors of a bank, and the position where their list continues after its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BankLayout {
    sectors: Vec<(u32, Count)>,
    repeat: Option<usize>,
}

/// Consecutive words of one kind: kind, first word, number of words.
pub type Run = (Kind, usize, usize);

impl Count {
    const fn of(count: u32) -> Self {
        if count == 0 { Self::Dynamic } else { Self::Fixed(count) }
    }
}

impl BankLayout {
    /// Parses the I/O words of a bank.
    pub fn parse(words: Words<'_>) -> Self {
        let first = words.get(0).unwrap_or(0);
        let j = first >> 16;
        if j == 0 {
            let code = if first < 8 { first } else { 1 };
            return Self { sectors: vec![(code, Count::Rest)], repeat: None };
        }
        let (t, flag, class) = (j & 7, j >> 3 & 1, j >> 13 & 7);
        let parts = [j >> 4 & 7, j >> 7 & 7, j >> 10 & 7];
        let [a, b, c] = parts;
        let single = (a != 0).then_some((a, Count::of(j >> 7 & 63)));
        let dynamic = |codes: &[u32]| -> Vec<(u32, Count)> {
            codes.iter().take_while(|&&code| code != 0).map(|&code| (code, Count::Dynamic)).collect()
        };
        let last = |rest: bool| if rest { Count::Rest } else { Count::Dynamic };
        let (mut sectors, mut repeat) = (Vec::new(), None);
        match class {
            0 => {
                sectors.extend(single);
                sectors.push((t, last(flag == 0)));
            }
            1 | 2 if t != 0 => {
                sectors = packed(words, &parts, flag);
                sectors.push((t, last(class == 1)));
            }
            1 | 2 => {
                sectors = dynamic(&[b, c]);
                sectors.push((a, last(class == 1)));
            }
            3 => {
                sectors.extend(single);
                sectors.push((t, Count::Dynamic));
                repeat = Some(usize::from(single.is_some() && flag == 0));
            }
            4 | 5 => {
                repeat = Some(if class == 4 { flag as usize + 1 } else { 0 });
                sectors = if t != 0 {
                    packed(words, &[t, a, b, c], if class == 4 { 0 } else { flag })
                } else {
                    dynamic(&parts)
                };
            }
            6 => {
                repeat = Some((j & 15) as usize);
                sectors = packed(words, &parts, 1);
            }
            _ => {}
        }
        if class < 3
            && let Some((SELF_DESCRIBING, count)) = sectors.last_mut()
        {
            *count = Count::Dynamic;
            repeat = Some(sectors.len() - 1);
        }
        Self { sectors, repeat }
    }

    /// Returns the kinds of the words in a bank; consecutive words of one kind are merged.
    pub fn runs(&self, data: Words<'_>) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        let total = data.len();
        let mut at = 0;
        let mut push = |kind: Kind, at: &mut usize, count: usize| {
            let count = count.min(total - *at);
            if count == 0 {
                return;
            }
            match runs.last_mut() {
                Some((known, _, length)) if *known == kind && kind != Kind::Control => *length += count,
                _ => runs.push((kind, *at, count)),
            }
            *at += count;
        };
        let mut next = 0;
        while at < total {
            let Some(&(code, count)) = self.sectors.get(next) else {
                match self.repeat.filter(|&again| again < self.sectors.len()) {
                    Some(again) => next = again,
                    None => break,
                }
                continue;
            };
            next += 1;
            let (code, length) = match count {
                Count::Fixed(length) => (code, length as usize),
                Count::Rest => (code, total - at),
                Count::Dynamic => {
                    let control = data.get(at).unwrap_or(0);
                    let (code, length) =
                        if code == SELF_DESCRIBING { (control & 15, control >> 4) } else { (code, control) };
                    if length == 0 || length > i32::MAX as u32 || Kind::of(code).is_none() {
                        break;
                    }
                    push(Kind::Control, &mut at, 1);
                    (code, length as usize)
                }
            };
            let Some(kind) = Kind::of(code) else { break };
            push(kind, &mut at, length);
        }
        push(Kind::Unused, &mut at, usize::MAX);
        runs
    }
}

/// Returns the sectors whose counts are packed in the second I/O word, and those added by further I/O words.
fn packed(words: Words<'_>, codes: &[u32], flag: u32) -> Vec<(u32, Count)> {
    let codes: Vec<u32> = codes.iter().copied().take_while(|&code| code != 0).collect();
    let widths = if flag == 0 { [32, 32, 16, 10, 8] } else { [29, 29, 14, 9, 7] };
    let width = widths.get(codes.len()).copied().unwrap_or(8);
    let bits = |word: u32, from: u32, width: u32| ((u64::from(word) >> from) & ((1 << width) - 1)) as u32;
    let mut word = words.get(1).unwrap_or(0);
    let mut sectors: Vec<(u32, Count)> = (0u32..)
        .zip(&codes)
        .map(|(place, &code)| (code, Count::of(bits(word, place * width, width))))
        .collect();
    for index in 2..words.len().min(17) {
        let more = word >> 29;
        if flag == 0 || more == 0 {
            break;
        }
        word = words.get(index).unwrap_or(0);
        let width = [26, 26, 11, 6, 4, 2, 1, 1].get(more as usize).copied().unwrap_or(1);
        sectors.extend(
            (0..more).map(|place| {
                (bits(word, 3 * place, 3), Count::of(bits(word, 3 * more + place * width, width)))
            }),
        );
    }
    sectors
}

/// Returns the I/O word of a bank whose first `count` words are of one kind and all others of another; it includes the
/// number of `links`. Bits 17 to 32 are the characteristic of class 0.
pub fn two_kinds(first: Option<(Kind, u32)>, rest: Kind, links: usize) -> Result<u32> {
    let code = |kind| match kind {
        Kind::Int => 2,
        Kind::Float => 3,
        Kind::Double => 4,
        Kind::Text => 5,
        _ => 1,
    };
    let mut j: u32 = code(rest);
    if let Some((kind, count)) = first {
        if count > 63 {
            return Err(crate::Error::argument(format!(
                "{count} words of one kind at the start of a bank: at most 63"
            )));
        }
        j |= code(kind) << 4 | count << 7;
    }
    let control = u32::try_from(links + 12).ok().filter(|&control| control < 1 << 16);
    let control =
        control.ok_or_else(|| crate::Error::argument(format!("a bank cannot have {links} links")))?;
    Ok(j << 16 | control)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zebra::words::Order;

    fn kinds(io: &[u32], data: &[u32]) -> String {
        let bytes = |words: &[u32]| words.iter().flat_map(|w| w.to_be_bytes()).collect::<Vec<u8>>();
        let (io, data) = (bytes(io), bytes(data));
        let runs = BankLayout::parse(Words::new(&io, Order::Big, 0)).runs(Words::new(&data, Order::Big, 0));
        runs.iter().map(|&(kind, _, count)| kind.letter().to_string().repeat(count)).collect()
    }

    #[test]
    fn every_class_of_characteristic_gives_its_kinds() {
        assert_eq!(kinds(&[0x0001_000e], &[0; 3]), "BBB");
        assert_eq!(kinds(&[0x0123_000e], &[0; 5]), "IIFFF");
        assert_eq!(kinds(&[0x21a5_000f, 0x0002_0001], &[0; 5]), "IFFHH");
        assert_eq!(kinds(&[0x89ca_000f, 0x0101_0203], &[0; 9]), "IIIDDFIFI");
        assert_eq!(kinds(&[0x00ab_000e], &[7, 2, 0, 0, 9]), "ICFF0");
        assert_eq!(kinds(&[0x0007_000e], &[16 + 2, 0, 2 * 16 + 3, 0, 0, 96]), "CICFF0");
        assert_eq!(kinds(&[0x82a9_000f, 0x0000_0c02], &[0, 0, 0, 0, 0, 1, 8, 1, 9]), "BBIIICHCH");
        assert_eq!(kinds(&[0x49aa_0010, 0x6004_0401, 0x0040_84d3], &[0; 8]), "IFFIFFIF");
        assert_eq!(kinds(&[0xad3a_0010, 0x2080_c101, 0x0000_000d], &[0; 13]), "IFFIIIFFFFHIF");
        assert_eq!(kinds(&[2], &[0; 2]), "II");
    }

    #[test]
    fn characteristics_made_of_any_bits_come_to_an_end() {
        let mut seed = 12345u32;
        for _ in 0..20_000 {
            let mut random = || {
                seed ^= seed << 13;
                seed ^= seed >> 17;
                seed ^= seed << 5;
                seed
            };
            let io = [random(), random(), random(), random()];
            let data: Vec<u32> = (0..20).map(|_| random() % 40).collect();
            assert_eq!(kinds(&io, &data).len(), 20);
        }
    }

    #[test]
    fn the_words_made_for_writing_are_those_of_cernlib() {
        assert_eq!(two_kinds(None, Kind::Int, 3).unwrap(), 0x0002_000f);
        assert_eq!(two_kinds(Some((Kind::Int, 5)), Kind::Float, 0).unwrap(), 0x02a3_000c);
        assert_eq!(two_kinds(Some((Kind::Int, 2)), Kind::Float, 0).unwrap(), 0x0123_000c);
        assert!(two_kinds(Some((Kind::Int, 64)), Kind::Float, 0).is_err());
    }
}
