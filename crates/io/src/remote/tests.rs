use super::*;
use std::sync::atomic::AtomicUsize;

/// A file of zeros; the first request leaves a remark.
#[derive(Default)]
struct Remarkable {
    asked: AtomicUsize,
    said: AtomicUsize,
}

impl Transport for Remarkable {
    fn name(&self) -> &'static str {
        "zeros"
    }
    fn size(&self) -> u64 {
        1 << 20
    }
    fn most_ranges(&self) -> usize {
        1
    }
    fn request(
        &self,
        ranges: &[Range],
        _limit: Duration,
        take: &mut dyn FnMut(u64, &[u8]) -> bool,
    ) -> std::result::Result<(), Fault> {
        self.asked.fetch_add(1, Relaxed);
        for range in ranges {
            take(range.offset, &vec![0; range.length as usize]);
        }
        Ok(())
    }
    fn remarks(&self) -> Vec<Error> {
        let first = self.said.fetch_add(1, Relaxed) == 0;
        Some(Error::other("it is not watched")).filter(|_| first).into_iter().collect()
    }
}

#[test]
fn remarks_are_listed_and_no_failures() {
    let transport = Arc::new(Remarkable::default());
    let remote = Remote::new(transport.clone(), Options::default(), Vec::new(), Ledger::default());
    let mut out = [1; 8];
    for offset in [0, 1 << 19] {
        remote.fetch(&[Range { offset, length: 8 }], &mut out, Cause::Page).unwrap();
        assert_eq!(out, [0; 8]);
    }
    assert!(transport.asked.load(Relaxed) >= 2);
    let [incident] = remote.ledger().try_into().unwrap();
    assert_eq!((incident.message.as_str(), incident.again), ("it is not watched", false));
    let counters = remote.counters();
    assert_eq!((counters.failures.load(Relaxed), counters.retries.load(Relaxed)), (0, 0));
}
