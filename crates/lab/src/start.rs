//! A program that measures the start of a process: it is as small as one in C, and its children begin and end through the
//! C library, with all its handlers. A process that has loaded this crate as a module could do neither.
//!
//! Its arguments: `fork` (a process that ends at once), `exec` (one that becomes a program that does nothing) or `shell`
//! (one that becomes a shell which starts that); and how often. It prints the nanoseconds of all of them.

#![no_std] // its libraries and handlers would be in each of the processes
#![no_main]

use core::ffi::{CStr, c_char, c_int, c_long};
use core::ptr;

#[repr(C)]
struct Time {
    seconds: c_long,
    nanoseconds: c_long,
}

#[link(name = "c")]
unsafe extern "C" {
    fn fork() -> c_int;
    fn waitpid(process: c_int, status: *mut c_int, options: c_int) -> c_int;
    fn execve(program: *const c_char, words: *const *const c_char, environment: *const *const c_char) -> c_int;
    fn exit(code: c_int) -> !;
    fn access(path: *const c_char, mode: c_int) -> c_int;
    fn atol(text: *const c_char) -> c_long;
    fn clock_gettime(clock: c_int, time: *mut Time) -> c_int;
    fn printf(format: *const c_char, ...) -> c_int;
}

#[cfg(target_os = "macos")]
const MONOTONIC: c_int = 6;
#[cfg(not(target_os = "macos"))]
const MONOTONIC: c_int = 1;

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // SAFETY: ends the process.
    unsafe { exit(101) }
}

/// Starts a process and waits for its end; whether that was as it should be.
fn start(how: &[u8], program: &CStr) -> bool {
    let shell = [c"/bin/sh".as_ptr(), c"-c".as_ptr(), program.as_ptr(), ptr::null()];
    let alone = [program.as_ptr(), ptr::null()];
    let words: &[*const c_char] = if how == b"shell" { &shell } else { &alone };
    let (mut status, nothing) = (0, [ptr::null()]);
    // SAFETY: lists end with a null pointer, words with a zero; there is room for the status.
    unsafe {
        match fork() {
            0 if how == b"fork" => exit(0),
            0 => {
                execve(words[0], words.as_ptr(), nothing.as_ptr());
                exit(127)
            }
            process => process > 0 && waitpid(process, &raw mut status, 0) == process && status == 0,
        }
    }
}

fn now() -> c_long {
    let mut time = Time { seconds: 0, nanoseconds: 0 };
    // SAFETY: there is room for the time.
    unsafe { clock_gettime(MONOTONIC, &raw mut time) };
    time.seconds * 1_000_000_000 + time.nanoseconds
}

#[unsafe(no_mangle)]
extern "C" fn main(count: c_int, words: *const *const c_char) -> c_int {
    if count != 3 {
        return 2;
    }
    // SAFETY: three words were given.
    let (how, times) = unsafe { (CStr::from_ptr(*words.add(1)).to_bytes(), atol(*words.add(2))) };
    // SAFETY: a path that ends with a zero.
    let here = unsafe { access(c"/bin/true".as_ptr(), 0) } == 0;
    let program = if here { c"/bin/true" } else { c"/usr/bin/true" };
    let mut well = start(how, program); // which the caches learn
    let begin = now();
    for _ in 0..times {
        well &= start(how, program);
    }
    let spent = now() - begin;
    if !well {
        return 1;
    }
    // SAFETY: the format names one long number.
    unsafe { printf(c"%ld\n".as_ptr(), spent) };
    0
}
