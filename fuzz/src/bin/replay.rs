//! Runs the targets without libFuzzer: on seeds and findings as they are, and on mutations of them.
//!
//! replay [--mutations N] [--seed S] FOLDER|TARGET:FILE...
//!
//! A folder holds one folder of inputs for each target. The same arguments always give the same inputs. A panic, more
//! than the stated memory or time ends the run with 1, and the input is kept as `artifacts/TARGET-NUMBER`.

use sapwood_fuzz::TARGETS;
use std::alloc::{GlobalAlloc, Layout, System};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// Bytes that may be allocated at a time.
const MEMORY: usize = 512 << 20;
/// Targets that take longer, and by which factor fewer of their inputs are mutated.
const SLOW: [(&str, usize); 3] = [("update", 4), ("http", 64), ("xrootd", 64)];
/// Seconds that one input may take.
const SECONDS: u64 = 10;

struct Limited;

static ALLOCATED: AtomicUsize = AtomicUsize::new(0);
static RUNS: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call goes to the system's allocator unchanged; only sizes are counted.
unsafe impl GlobalAlloc for Limited {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if ALLOCATED.fetch_add(layout.size(), Relaxed) + layout.size() > MEMORY {
            std::process::abort();
        }
        unsafe { System.alloc(layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if ALLOCATED.fetch_add(layout.size(), Relaxed) + layout.size() > MEMORY {
            std::process::abort();
        }
        unsafe { System.alloc_zeroed(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        ALLOCATED.fetch_sub(layout.size(), Relaxed);
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Limited = Limited;

/// xorshift64*: the same numbers everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % n.max(1)
    }
}

fn mutate(data: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    for _ in 0..=random.below(4) {
        if data.is_empty() {
            return;
        }
        let at = random.below(data.len());
        match random.below(6) {
            0 => data[at] ^= 1 << random.below(8),
            1 => data[at] = [0, 1, 0x7f, 0x80, 0xff][random.below(5)],
            2 => {
                let edge = [0u32, 1, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff, 0x4000_0000][random.below(6)];
                for (to, from) in data[at..].iter_mut().zip(edge.to_be_bytes()) {
                    *to = from;
                }
            }
            3 => {
                let end = (at + 1 + random.below(32)).min(data.len());
                data.drain(at..end);
            }
            4 => {
                let begin = random.below(other.len());
                let piece = other[begin..(begin + 1 + random.below(64)).min(other.len())].to_vec();
                for (to, from) in data[at..].iter_mut().zip(piece) {
                    *to = from;
                }
            }
            _ => data.insert(at, random.below(256) as u8),
        }
    }
}

fn inputs(folder: &Path) -> Vec<(usize, PathBuf)> {
    let mut found = Vec::new();
    for (target, (name, _)) in TARGETS.iter().enumerate() {
        let Ok(entries) = fs::read_dir(folder.join(name)) else { continue };
        let mut files: Vec<PathBuf> = entries.flatten().map(|e| e.path()).collect();
        files.sort();
        found.extend(files.into_iter().map(|file| (target, file)));
    }
    found
}

/// The input under test is on disk while it runs, so that even an abort leaves it behind.
fn run(target: usize, data: &[u8], kept: &Path) {
    fs::write(kept, data).expect("artifacts can be written");
    RUNS.fetch_add(1, Relaxed);
    (TARGETS[target].1)(data);
    fs::remove_file(kept).expect("artifacts can be removed");
}

fn main() {
    // A panic of any thread is a finding.
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        report(panic);
        std::process::exit(101);
    }));
    let (mut mutations, mut seed, mut cases) = (0usize, 1u64, Vec::new());
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut number = || arguments.next().and_then(|n| n.parse::<u64>().ok()).expect("a number");
        match argument.as_str() {
            "--mutations" => mutations = number() as usize,
            "--seed" => seed = number(),
            other => match other.split_once(':') {
                Some((name, file)) => {
                    let target = TARGETS.iter().position(|(n, _)| *n == name).expect("a target's name");
                    cases.push((target, PathBuf::from(file)));
                }
                None => cases.extend(inputs(Path::new(other))),
            },
        }
    }
    assert!(!cases.is_empty(), "no inputs: make them with seeds.py");
    fs::create_dir_all("artifacts").expect("artifacts can be made");
    std::thread::spawn(|| {
        let mut before = 0;
        loop {
            std::thread::sleep(Duration::from_secs(SECONDS));
            let now = RUNS.load(Relaxed);
            if now == before && now > 0 {
                eprintln!("an input took over {SECONDS} s; it is in artifacts/");
                std::process::exit(1);
            }
            before = now;
        }
    });
    let contents: Vec<(usize, Vec<u8>)> =
        cases.iter().map(|(target, file)| (*target, fs::read(file).expect("a readable input"))).collect();
    let mut counts = [0u64; TARGETS.len()];
    for (number, (target, data)) in contents.iter().enumerate() {
        let name = TARGETS[*target].0;
        run(*target, data, &PathBuf::from(format!("artifacts/{name}-{number}")));
        counts[*target] += 1;
        let others: Vec<&[u8]> =
            contents.iter().filter(|(t, _)| t == target).map(|(_, d)| d.as_slice()).collect();
        let slow = SLOW.iter().find(|(slow, _)| *slow == name).map_or(1, |(_, factor)| *factor);
        let share = mutations / contents.len() / slow;
        for mutation in 0..share {
            let mut random =
                Random(seed.wrapping_mul(0x9e37_79b9) ^ ((number as u64) << 32) ^ (mutation as u64 + 1));
            random.below(2);
            let mut mutated = data.clone();
            let other = others[random.below(others.len())];
            mutate(&mut mutated, other, &mut random);
            run(*target, &mutated, &PathBuf::from(format!("artifacts/{name}-{number}-{mutation}")));
            counts[*target] += 1;
        }
    }
    let summary: Vec<String> =
        TARGETS.iter().zip(counts).map(|((name, _), n)| format!("{name} {n}")).collect();
    println!("fuzz replay passed: {}", summary.join(", "));
}
