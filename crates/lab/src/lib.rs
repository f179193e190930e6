//! The parts of the laboratory that need native speed: the probes of `sapwood lab machine`, the events of `sapwood lab event`.
//!
//! A probe is run in a process of its own, which ends with it: [`system::forget`] leaves it unfit for anything else.
//! Values follow the conventions of STREAM and lmbench: a MB is 10^6 bytes, times are of one operation.

pub mod events;
pub mod kernels;
pub mod memory;
#[cfg(unix)]
pub mod processes;
#[cfg(unix)]
pub mod system;

use std::io::{Error, Result};

/// Source text of the kernels, for compiling them with other options: a module, and a program that runs it.
pub const SOURCES: [(&str, &str); 2] =
    [("kernels.rs", include_str!("kernels.rs")), ("main.rs", include_str!("program.rs"))];

/// The program `start.rs`, which starts processes; empty where it could not be built.
pub const STARTER: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/starter"));

/// Runs a probe for about this many seconds; returns its values.
///
/// `size` is in bytes, `count` a number of processes or files, `folder` where files are made.
///
/// # Errors
/// When there is no such probe here, or the system refuses.
pub fn run(name: &str, size: usize, count: usize, folder: &str, seconds: f64) -> Result<Vec<f64>> {
    if let Some((_, _, kernel)) = kernels::KERNELS.iter().find(|kernel| kernel.0 == name) {
        return Ok(vec![kernel(seconds)]);
    }
    #[cfg(not(unix))]
    let _ = (count, folder);
    Ok(match name {
        "stream" => kernels::stream(size / 8, seconds).to_vec(),
        "read" => vec![memory::read(size, seconds)],
        "write" => vec![memory::write(size, seconds)],
        "copy" => vec![memory::copy(size, seconds)],
        "latency" => vec![memory::latency(size, seconds)],
        #[cfg(unix)]
        "null call" => vec![processes::null_call(seconds)],
        #[cfg(unix)]
        "signal install" => vec![processes::signal_install(seconds)],
        #[cfg(unix)]
        "signal" => vec![processes::signal(seconds)],
        #[cfg(unix)]
        "switch" => vec![processes::switch(count, size, seconds)?],
        #[cfg(unix)]
        "pipe" | "udp" | "tcp" | "rpc udp" | "rpc tcp" => vec![processes::round_trip(name, seconds)?],
        #[cfg(unix)]
        "pipe bandwidth" => vec![processes::pipe_bandwidth(seconds)?],
        #[cfg(unix)]
        "files" => processes::files(std::path::Path::new(folder), count, size)?.to_vec(),
        _ => return Err(Error::other(format!("probe {name} is not available on this machine"))),
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_probe_gives_values() {
        let folder = std::env::temp_dir();
        let folder = folder.to_string_lossy();
        let kernels = super::kernels::KERNELS.map(|kernel| kernel.0);
        let memory = ["stream", "read", "write", "copy", "latency"];
        for name in kernels.into_iter().chain(memory) {
            let values = super::run(name, 1 << 16, 2, &folder, 0.002).unwrap();
            assert!(values.iter().all(|value| value.is_finite() && *value > 0.0), "{name}: {values:?}");
        }
        #[cfg(unix)]
        for name in [
            "null call",
            "signal install",
            "signal",
            "switch",
            "pipe",
            "udp",
            "tcp",
            "rpc udp",
            "rpc tcp",
            "pipe bandwidth",
            "files",
        ] {
            let values = super::run(name, 1 << 12, 2, &folder, 0.002).unwrap();
            assert!(values.iter().all(|value| value.is_finite() && *value >= 0.0), "{name}: {values:?}");
        }
        assert!(super::run("none such", 0, 0, "", 0.0).unwrap_err().to_string().contains("none such"));
    }
}
