//! Inputs as sequences of choices.

/// Bytes as choices; zeros when there are no more.
pub struct Choices<'a>(pub &'a [u8]);

impl<'a> Choices<'a> {
    pub fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().map_or((0, self.0), |(first, rest)| (*first, rest));
        self.0 = rest;
        first
    }
    pub fn word(&mut self) -> usize {
        usize::from(self.byte()) << 8 | usize::from(self.byte())
    }
    pub fn below(&mut self, most: usize) -> usize {
        usize::from(self.byte()) % most.max(1)
    }
    /// One in `most`; never after the last byte.
    pub fn rarely(&mut self, most: usize) -> bool {
        self.below(most) + 1 == most
    }
    pub fn of<T: Copy>(&mut self, known: &[(&str, T)]) -> T {
        known[self.below(known.len())].1
    }
    pub fn one<T: Copy>(&mut self, known: &[T]) -> T {
        known[self.below(known.len())]
    }
    pub fn bound(&mut self) -> Option<i64> {
        let byte = self.byte();
        (byte != 0).then(|| i64::from(byte as i8))
    }
    /// Up to `most` bytes of the input as they are.
    pub fn raw(&mut self, most: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(most.min(self.0.len()));
        self.0 = rest;
        taken
    }
}

/// Numbers on which lengths, counts, versions and positions break.
const EDGES: [u32; 14] = [
    0,
    1,
    2,
    0x7f,
    0x80,
    0xff,
    0x100,
    0x7fff,
    0x8000,
    0xffff,
    0x4000_0000,
    0x7fff_ffff,
    0x8000_0000,
    u32::MAX,
];

/// Changes bytes without changing their number.
pub fn overwrite(bytes: &mut [u8], choices: &mut Choices<'_>) {
    if bytes.is_empty() {
        return;
    }
    let at = choices.word() % bytes.len();
    let put = |to: &mut [u8], from: &[u8]| to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
    let bytes = &mut bytes[at..];
    match choices.below(6) {
        0 => bytes[0] ^= 1 << choices.below(8),
        1 => bytes[0] = choices.byte(),
        2 => put(bytes, &choices.one(&EDGES).to_be_bytes()),
        3 => put(bytes, &choices.one(&EDGES).to_be_bytes()[2..]),
        4 => {
            let width = choices.one(&[1, 2, 4, 8]).min(bytes.len());
            let mut carry = i32::from(choices.byte() as i8);
            for byte in bytes[..width].iter_mut().rev() {
                carry += i32::from(*byte);
                *byte = carry as u8;
                carry >>= 8;
            }
        }
        _ => {
            let length = 1 + choices.below(16);
            put(bytes, choices.raw(length));
        }
    }
}
