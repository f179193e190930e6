//! Servers on the loopback interface that answer as an input says.

use crate::choices::{Choices, overwrite};
use sapwood_io::{Cause, Range, Source};
use std::io::Write;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;

/// Bytes of the input for one answer; more are taken from those of the next.
const EACH: usize = 48;
/// Bytes of the file that the servers have: more than the start and the end that are read at opening.
const SIZE: usize = 400_000;

/// The file that the servers have.
pub fn content() -> &'static [u8] {
    static CONTENT: OnceLock<Vec<u8>> = OnceLock::new();
    CONTENT.get_or_init(|| {
        let number = |at: usize| (at.wrapping_mul(0x9e37_79b9) >> 13) as u8;
        b"root".iter().copied().chain((4..SIZE).map(number)).collect()
    })
}

/// What the connections of one input share.
pub struct Script {
    input: Vec<u8>,
    pub port: u16,
    /// Number of answers that have no fixed part of the input.
    answers: AtomicUsize,
    /// Whether an answer was not that of a correct server.
    lied: AtomicBool,
    over: AtomicBool,
    connections: Mutex<Vec<TcpStream>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Script {
    /// The choices for the next answer, or for the answer of a number below `fixed`: those of requests that are sent
    /// at once must not depend on their order.
    pub fn choices(&self, number: Option<usize>, fixed: usize) -> Choices<'_> {
        let number = number.unwrap_or_else(|| fixed + self.answers.fetch_add(1, Relaxed));
        Choices(self.input.get(number * EACH..).unwrap_or_default())
    }
    pub fn lie(&self) {
        self.lied.store(true, Relaxed);
    }
    pub fn is_over(&self) -> bool {
        self.over.load(Relaxed)
    }
    /// Damages an answer now and then; returns whether it did.
    pub fn damage(&self, bytes: &mut Vec<u8>, choices: &mut Choices<'_>) -> bool {
        let damages = choices.rarely(4);
        if damages {
            self.lie();
            for _ in 0..=choices.below(3) {
                overwrite(bytes, choices);
            }
            if choices.rarely(4) {
                bytes.truncate(choices.word() % bytes.len().max(1));
            }
        }
        damages
    }
    /// Sends an answer, in pieces now and then.
    pub fn send(stream: &mut TcpStream, bytes: &[u8], choices: &mut Choices<'_>) -> std::io::Result<()> {
        if choices.rarely(8) {
            let (first, rest) = bytes.split_at(choices.word() % bytes.len().max(1));
            stream.write_all(first)?;
            thread::yield_now();
            return stream.write_all(rest);
        }
        stream.write_all(bytes)
    }
}

/// A listening socket, with a thread for each connection.
pub struct Server {
    port: u16,
    script: Mutex<Option<Arc<Script>>>,
}

impl Server {
    /// Starts a server that serves connections with a function, until the process ends.
    pub fn start(serve: fn(&Script, TcpStream)) -> &'static Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port of the loopback interface");
        let port = listener.local_addr().expect("an address").port();
        let server: &'static Self = Box::leak(Box::new(Self { port, script: Mutex::new(None) }));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let Some(script) = lock(&server.script).clone() else { continue };
                if let Ok(stream) = stream.try_clone() {
                    lock(&script.connections).push(stream);
                }
                thread::spawn(move || serve(&script, stream));
            }
        });
        server
    }

    /// Reads parts of the file that `open` opens at the port, as the input says. If all answers were those of a correct
    /// server, what was read must be what the file has.
    pub fn read(&self, input: &[u8], open: impl FnOnce(u16) -> Option<Arc<dyn Source>>) {
        let mut found: Vec<(Range, Vec<u8>)> = Vec::new();
        let ((), honest) = self.during(input, |port| {
            let Some(source) = open(port) else { return };
            let size = source.size();
            let part = |at: u64, length: u64| Range { offset: size / 8 * at, length: length.min(size / 8) };
            let ranges = [part(0, 40), part(2, 3000), part(3, 1), part(5, 20_000), part(7, 700)];
            let announced = source.announce(&|| ranges.to_vec(), true);
            for (wanted, cause) in
                [(&ranges[..], Cause::Page), (&ranges[1..3], Cause::Object), (&ranges[3..4], Cause::Head)]
            {
                let mut out = vec![0; wanted.iter().map(|range| range.length as usize).sum()];
                if source.fetch(wanted, &mut out, cause).is_ok() {
                    let mut rest = out.as_slice();
                    for range in wanted {
                        let (bytes, behind) = rest.split_at(range.length as usize);
                        found.push((*range, bytes.to_vec()));
                        rest = behind;
                    }
                }
            }
            drop(announced);
            let _ = source.promised();
            let _ = (source.version(), source.server(), source.ledger());
            source.close();
        });
        for (range, bytes) in found {
            let right = &content()[range.offset as usize..range.end() as usize];
            assert!(!honest || right == bytes, "other bytes than those of {range:?}");
        }
    }

    /// Serves the connections during `work` as the input says; `work` gets the port. Returns whether all answers were
    /// those of a correct server.
    fn during<T>(&self, input: &[u8], work: impl FnOnce(u16) -> T) -> (T, bool) {
        let script = Arc::new(Script {
            input: input.to_vec(),
            port: self.port,
            answers: AtomicUsize::new(0),
            lied: AtomicBool::new(false),
            over: AtomicBool::new(false),
            connections: Mutex::default(),
        });
        *lock(&self.script) = Some(script.clone());
        let result = work(self.port);
        *lock(&self.script) = None;
        script.over.store(true, Relaxed);
        for stream in lock(&script.connections).drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
        (result, !script.lied.load(Relaxed))
    }
}
