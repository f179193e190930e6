//! The events of `sapwood lab event`, made so quickly that it is not their making that is measured.
//!
//! ROOT's program of that study makes the same ones, number by number: what all engines write can be compared.

use crate::kernels::Chance;

/// Members of a track that are floats.
pub const FLOATS: usize = 14;
/// Bins of the histogram of an event.
pub const BINS: usize = 100;
/// Tracks of an event, at least, and how many more there may be.
const TRACKS: (u64, u64) = (580, 41);

/// Events as columns; lists of tracks as offsets and the members of all tracks.
#[derive(Default)]
pub struct Events {
    /// One number for each event.
    pub temperature: Vec<f32>,
    /// The bins of all events.
    pub histogram: Vec<f32>,
    /// Where the tracks of each event begin, and the end.
    pub offsets: Vec<i64>,
    /// Members of all tracks, from 0 to 1.
    pub floats: [Vec<f32>; FLOATS],
    /// -1, 0 or 1.
    pub charge: Vec<i32>,
    /// From 40 to 99.
    pub npoint: Vec<i32>,
    /// 0 or 1.
    pub valid: Vec<i16>,
}

/// A number from 0 to 1, exact in single precision.
#[inline]
fn single(chance: &mut Chance) -> f32 {
    (chance.bits() >> 40) as f32 / (1u32 << 24) as f32
}

/// Makes a range of events. Each has numbers of its own, whatever range it is made in.
pub fn events(start: u64, stop: u64) -> Events {
    let mut made = Events { offsets: vec![0], ..Events::default() };
    let mut tracks = 0;
    for entry in start..stop {
        let mut chance = Chance::new((entry + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        made.temperature.push(20.0 + single(&mut chance));
        made.histogram.extend((0..BINS).map(|_| (100.0 * single(&mut chance)).floor()));
        let count = TRACKS.0 + chance.bits() % TRACKS.1;
        tracks += count.cast_signed();
        made.offsets.push(tracks);
        for column in &mut made.floats {
            column.extend((0..count).map(|_| single(&mut chance)));
        }
        for _ in 0..count {
            let bits = chance.bits();
            made.charge.push((bits % 3) as i32 - 1);
            made.npoint.push(40 + ((bits >> 8) % 60) as i32);
            made.valid.push((bits >> 20 & 1) as i16);
        }
    }
    made
}

#[cfg(test)]
mod tests {
    #[test]
    fn an_event_is_the_same_in_every_range() {
        let (all, one) = (super::events(3, 8), super::events(5, 6));
        let (first, last) = (all.offsets[2] as usize, all.offsets[3] as usize);
        assert!((580..=620).contains(&one.offsets[1]) && one.offsets[1] as usize == last - first);
        assert_eq!(all.floats[13][first..last], one.floats[13]);
        assert_eq!(all.histogram[200..300], one.histogram);
        assert!(all.charge[first..last] == one.charge && all.npoint[first..last] == one.npoint);
        assert!(one.floats[0].iter().all(|value| (0.0..1.0).contains(value)));
        assert!(super::events(4, 4).temperature.is_empty());
    }
}
