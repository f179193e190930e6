//! Simulated storage, to predict requests.

use super::{Fault, Options, Remote, Transport};
use crate::ledger::Ledger;
use crate::plan::Range;
use std::io::{Error, ErrorKind};
use std::sync::Arc;
use std::time::Duration;

/// Creates simulated storage with the given latency. Its [`requests`](crate::Source::requests) are those that would be
/// sent.
pub fn imagined(
    size: u64,
    most_ranges: usize,
    latency: Duration,
    bandwidth: u64,
    options: Options,
) -> Remote {
    let remote =
        Remote::new(Arc::new(Imagined { size, most_ranges }), options, Vec::new(), Ledger::default());
    remote.shared().pace.suppose(latency, Some(bandwidth));
    remote
}

struct Imagined {
    size: u64,
    most_ranges: usize,
}

impl Transport for Imagined {
    fn name(&self) -> &'static str {
        "imagined storage"
    }
    fn size(&self) -> u64 {
        self.size
    }
    fn most_ranges(&self) -> usize {
        self.most_ranges.max(1)
    }
    fn request(
        &self,
        _ranges: &[Range],
        _limit: Duration,
        _take: &mut dyn FnMut(u64, &[u8]) -> bool,
    ) -> std::result::Result<(), Fault> {
        Err(Fault::lasting(Error::from(ErrorKind::Unsupported)))
    }
}
