//! Builds `src/start.rs`, a program of its own, which the crate has within it: a wheel has no place for programs beside the
//! module. Where it cannot be built the crate does without.

use std::path::PathBuf;
use std::process::Command;
use std::{env, fs, io};

/// The program is linked as C compilers do by default: a function is looked up at its first call. A function that only
/// new processes call is therefore looked up in each of them.
const OPTIONS: [&str; 6] =
    ["--edition=2024", "-Copt-level=3", "-Cpanic=abort", "-Cstrip=symbols", "-Crelro-level=partial", "-o"];

#[expect(clippy::disallowed_methods, reason = "into the folder that Cargo gives, while the crate is built")]
fn main() -> io::Result<()> {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=src/start.rs");
    let word = |name| env::var_os(name).unwrap_or_default();
    let program = PathBuf::from(word("OUT_DIR")).join("starter");
    fs::write(&program, [])?;
    if env::var_os("CARGO_CFG_UNIX").is_none() {
        return Ok(());
    }
    let mut compiler = Command::new(word("RUSTC"));
    compiler.args(OPTIONS).arg(&program).arg("--target").arg(word("TARGET")).arg("src/start.rs");
    if let Some(linker) = env::var_os("RUSTC_LINKER") {
        compiler.arg("-Clinker").arg(linker);
    }
    if !compiler.status().is_ok_and(|status| status.success()) {
        println!("cargo:warning=the program that starts processes is left out");
        fs::write(&program, [])?;
    }
    Ok(())
}
