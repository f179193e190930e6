//! The system's calls that are measured, as functions that are safe to call.

#![allow(
    unsafe_code,
    reason = "the calls themselves are what is measured; the standard library wraps more around them, or has none"
)]

use std::ffi::{c_int, c_void};
use std::io::{Error, Result};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;

/// Asks for the parent's number, which no library keeps.
pub fn null_call() {
    // SAFETY: takes nothing, and cannot fail.
    unsafe { libc::getppid() };
}

/// Both ends of a pipe: to read, to write.
pub fn pipe() -> Result<(OwnedFd, OwnedFd)> {
    let mut ends = [-1; 2];
    // SAFETY: there is room for two.
    if unsafe { libc::pipe(ends.as_mut_ptr()) } != 0 {
        return Err(Error::last_os_error());
    }
    let [from, to] = ends;
    // SAFETY: both are new, and no other code uses them.
    Ok(unsafe { (OwnedFd::from_raw_fd(from), OwnedFd::from_raw_fd(to)) })
}

/// Reads what there is; 0 at the end and after an error.
pub fn read(from: &impl AsRawFd, to: &mut [u8]) -> usize {
    // SAFETY: writes into the slice, at most its length.
    let got = unsafe { libc::read(from.as_raw_fd(), to.as_mut_ptr().cast(), to.len()) };
    usize::try_from(got).unwrap_or(0)
}

/// Writes as much as goes; 0 after an error.
pub fn write(to: &impl AsRawFd, from: &[u8]) -> usize {
    // SAFETY: reads the slice.
    let put = unsafe { libc::write(to.as_raw_fd(), from.as_ptr().cast(), from.len()) };
    usize::try_from(put).unwrap_or(0)
}

/// A process that [`child`] started; it is ended when this is dropped.
pub struct Child(libc::pid_t);

impl Child {
    /// Waits for its end; returns the exit code, or 128 plus the signal that ended it.
    pub fn wait(mut self) -> Result<i32> {
        let code = self.reap();
        self.0 = 0;
        code
    }
    fn reap(&self) -> Result<i32> {
        let mut status: c_int = 0;
        // SAFETY: there is room for the status.
        while unsafe { libc::waitpid(self.0, &raw mut status, 0) } < 0 {
            let error = Error::last_os_error();
            if error.kind() != std::io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
        Ok(if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { 128 + libc::WTERMSIG(status) })
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if self.0 > 0 {
            // SAFETY: the process is ours, and has not been waited for.
            unsafe { libc::kill(self.0, libc::SIGKILL) };
            let _ = self.reap();
        }
    }
}

/// Starts a copy of this process that does `work` and ends with its result as exit code.
///
/// The copy has one thread, and after [`forget`] neither heap nor most of the program: `work` may use its stack and
/// the functions of this module, and may not allocate.
pub fn child(work: impl FnOnce() -> i32) -> Result<Child> {
    #[cfg(target_os = "linux")]
    const NONE: libc::c_long = 0;
    // The bare call: the library's function would visit locks in memory that the copy does not have.
    #[cfg(target_os = "linux")]
    // SAFETY: no new stack and nothing shared, as fork.
    let pid =
        unsafe { libc::syscall(libc::SYS_clone, libc::c_long::from(libc::SIGCHLD), NONE, NONE, NONE, NONE) }
            as libc::pid_t;
    #[cfg(not(target_os = "linux"))]
    // SAFETY: the copy calls nothing that another thread may have locked.
    let pid = unsafe { libc::fork() };
    match pid {
        0 => {
            #[cfg(target_os = "linux")]
            // SAFETY: takes a number; the copy ends with this process.
            unsafe {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL)
            };
            let code = work();
            // SAFETY: ends without running the exit handlers of the original.
            unsafe { libc::_exit(code) }
        }
        1.. => Ok(Child(pid)),
        _ => Err(Error::last_os_error()),
    }
}

extern "C" fn caught(_: c_int) {}

/// Installs a handler of `SIGUSR1` that does nothing.
pub fn install() {
    // SAFETY: all zeros is a valid action; the handler does nothing.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = caught as extern "C" fn(c_int) as usize;
        libc::sigaction(libc::SIGUSR1, &raw const action, ptr::null_mut());
    }
}

/// Sends this process the signal, or only asks whether that could be done.
pub fn send(really: bool) {
    // SAFETY: to this process, after `install`.
    unsafe { libc::kill(libc::getpid(), if really { libc::SIGUSR1 } else { 0 }) };
}

/// Returns this many bytes of new memory, zeros, kept until the process ends; empty if none is available.
pub fn memory(bytes: usize) -> &'static mut [u64] {
    let (rights, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANON);
    if bytes < 8 {
        return &mut [];
    }
    // SAFETY: a new mapping, aligned to pages, that no other code uses.
    unsafe {
        let start: *mut c_void = libc::mmap(ptr::null_mut(), bytes, rights, kind, -1, 0);
        if start == libc::MAP_FAILED {
            return &mut [];
        }
        std::slice::from_raw_parts_mut(start.cast(), bytes / 8)
    }
}

/// Makes later children start with little memory: this code, the C library, the stack.
///
/// The cost of a fork grows with the memory of the process. The probe measures that of a small program, not that of an
/// interpreter. Afterwards only [`child`] may fork this process.
///
/// # Errors
/// When the list of mappings cannot be read.
#[cfg(target_os = "linux")]
pub fn forget() -> Result<()> {
    let maps = std::fs::read_to_string("/proc/self/maps")?;
    let here = 0u8;
    // SAFETY: returns an address of this thread.
    let thread = unsafe { libc::__errno_location() } as usize;
    let needed =
        [&raw const here as usize, thread, forget as *const () as usize, libc::read as *const () as usize];
    let mappings: Vec<(usize, usize, &str)> = maps.lines().filter_map(mapping).collect();
    let files: Vec<&str> = mappings
        .iter()
        .filter(|(start, stop, name)| {
            name.contains("/ld")
                || (name.starts_with('/') && needed.iter().any(|place| (*start..*stop).contains(place)))
        })
        .map(|(_, _, name)| *name)
        .collect();
    let mut end_of_kept = 0;
    for (start, stop, name) in mappings {
        let own = needed.iter().any(|place| (start..stop).contains(place));
        // Data without a value in the file follow it, in a mapping without a name.
        let behind = name.is_empty() && start == end_of_kept;
        if own || behind || files.contains(&name) || name.starts_with("[v") || name == "[stack]" {
            end_of_kept = stop;
        } else {
            // SAFETY: changes nothing here, only what a copy will have.
            unsafe { libc::madvise(start as *mut c_void, stop - start, libc::MADV_DONTFORK) };
        }
    }
    Ok(())
}

/// Start, end and name of a line of the list of mappings.
#[cfg(target_os = "linux")]
fn mapping(line: &str) -> Option<(usize, usize, &str)> {
    let mut words = line.split_ascii_whitespace();
    let (start, stop) = words.next()?.split_once('-')?;
    let number = |text| usize::from_str_radix(text, 16).ok();
    Some((number(start)?, number(stop)?, words.nth(4).unwrap_or("")))
}

/// Nothing to do where copies are not told what to leave.
///
/// # Errors
/// None.
#[cfg(not(target_os = "linux"))]
pub fn forget() -> Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_end_with_their_code_or_are_ended() {
        assert_eq!(child(|| 7).unwrap().wait().unwrap(), 7);
        let (from, to) = pipe().unwrap();
        let waiting = child(|| read(&from, &mut [0]) as i32).unwrap();
        drop(waiting);
        drop(to);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn lines_of_mappings_are_understood() {
        let line = "7f00-7f80 rw-p 00000000 08:01 42        /usr/lib/libc.so.6";
        assert_eq!(mapping(line), Some((0x7f00, 0x7f80, "/usr/lib/libc.so.6")));
        assert_eq!(mapping("7f00-7f80 rw-p 00000000 00:00 0 "), Some((0x7f00, 0x7f80, "")));
        assert_eq!(mapping("nothing"), None);
    }
}
