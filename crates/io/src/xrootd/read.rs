//! Reading ranges of an open file: a single range, a range in pages with checksums, or several ranges.

use super::handle::{Handle, ask, ask_pages, ask_range};
use super::pages::Pages;
use super::session::{Ask, Limits};
use super::wire::{Answer, ELEMENT, Stat, WireReader, kind};
use super::{Xrootd, changed, lock, small};
use crate::cancel;
use crate::plan::Range;
use crate::remote::Fault;
use std::io::{Error, ErrorKind, Result};
use std::iter;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Maximum bytes of a read of one range.
const LONGEST: u64 = 1 << 30;
/// Time to wait for the file status after the bytes have arrived.
const LISTEN: Duration = Duration::from_secs(5);

impl Xrootd {
    /// Reads ranges with one request. A single range is read in pages with checksums, if the server supports them.
    pub fn read(
        &self,
        handle: &Handle,
        ranges: &[Range],
        deadline: Instant,
        take: &mut dyn FnMut(u64, &[u8]) -> bool,
    ) -> std::result::Result<Option<Answer>, Fault> {
        let has_pages = &handle.session.has_pages;
        let paged = ranges.len() == 1 && has_pages.load(Ordering::Relaxed);
        let answer = self.read_so(handle, ranges, paged, deadline, take)?;
        let no = match answer {
            Some(Answer::Refused(no)) if paged && no.lasting() => no,
            answer => return Ok(answer),
        };
        // Some servers announce pages but do not return them.
        let answer = self.read_so(handle, ranges, false, deadline, take)?;
        if matches!(answer, None | Some(Answer::Done)) && has_pages.swap(false, Ordering::Relaxed) {
            let server = handle.session.endpoint.server();
            let why = format!("{server} does not send pages with checksums: {}", Error::from(no));
            lock(&self.state().remarks).push(Error::other(why));
        }
        Ok(answer)
    }

    /// Reads ranges with one request, a single range optionally as pages.
    fn read_so(
        &self,
        handle: &Handle,
        ranges: &[Range],
        paged: bool,
        deadline: Instant,
        take: &mut dyn FnMut(u64, &[u8]) -> bool,
    ) -> std::result::Result<Option<Answer>, Fault> {
        let limits = handle.session.limits(Instant::now() + self.options.timeout);
        let quiet = Instant::now() + self.options.timeout;
        let failed = |error: Error| Fault::passing(error);
        let (asked, mut form) = if let [range] = ranges {
            let (offset, length) = (range.offset, range.length.min(LONGEST));
            if paged {
                (ask_pages(handle.id, offset, length), Form::Pages(Pages::default()))
            } else {
                (ask_range(handle.id, offset, length), Form::Plain(offset))
            }
        } else {
            let (body, most) = elements(ranges, handle.id, limits);
            (ask(kind::READV, &[], &body, most), Form::Parts(VectorParts::default()))
        };
        let watch = lock(&handle.watch).clone();
        let look = handle.look(&watch).filter(|_| !self.unwatched.load(Ordering::Relaxed));
        let asks: Vec<Ask> = iter::once(asked).chain(look).collect();
        let mut streams = handle.session.ask_together(&asks).map_err(failed)?.into_iter();
        let mut stream = streams.next().ok_or_else(|| failed(Error::other("the request is empty")))?;
        let mut strange = None;
        let mut left = ranges.iter().map(|range| range.length).fold(0, u64::saturating_add);
        let mut count = |at: u64, bytes: &[u8]| {
            left = left.saturating_sub(bytes.len() as u64);
            take(at, bytes)
        };
        let answer = stream.finish(quiet, deadline, &mut |bytes| match form.feed(bytes, &mut count) {
            Ok(more) => more,
            Err(error) => {
                strange = Some(error);
                false
            }
        });
        if let Some(error) = strange {
            return Err(failed(error));
        }
        let answer = answer.map_err(failed)?;
        // With all wanted bytes, the end of the answer need not be awaited.
        let whole = answer == Some(Answer::Done) || (answer.is_none() && left == 0);
        if let Some(look) = streams.next().filter(|_| whole) {
            let until = Instant::now() + LISTEN.min(self.options.timeout / 2);
            // A single missing answer does not end the session.
            match small(look, until + self.options.timeout, until) {
                Ok((answer, body)) => {
                    let now = Stat::parse(&WireReader(&body).text()).filter(|_| answer == Answer::Done);
                    if !cancel::given_up()
                        && let Some(what) = lock(&handle.watch).compare(&watch, now)
                    {
                        return Err(changed(&what));
                    }
                }
                Err(error) if error.kind() == ErrorKind::TimedOut && handle.session.over().is_none() => {
                    if !self.unwatched.swap(true, Ordering::Relaxed) {
                        let server = handle.session.endpoint.server();
                        let why = format!(
                            "{server} does not report the state of the file; later changes of the file are not detected"
                        );
                        lock(&self.state().remarks).push(Error::new(ErrorKind::TimedOut, why));
                    }
                }
                Err(error) => return Err(failed(error)),
            }
        }
        if let Form::Pages(pages) = &form {
            pages.checked().map_err(failed)?;
        }
        Ok(answer)
    }
}

/// The form of the data in an answer.
enum Form {
    /// The file's bytes, from this position.
    Plain(u64),
    Parts(VectorParts),
    Pages(Pages),
}

impl Form {
    /// Passes on file offset and bytes; returns false if no more are wanted.
    fn feed(&mut self, bytes: &[u8], take: &mut dyn FnMut(u64, &[u8]) -> bool) -> Result<bool> {
        match self {
            Self::Plain(offset) => {
                let at = *offset;
                *offset += bytes.len() as u64;
                Ok(take(at, bytes))
            }
            Self::Parts(parts) => parts.feed(bytes, take),
            Self::Pages(pages) => pages.feed(bytes, take),
        }
    }
}

/// Returns the body of a `kXR_readv` request, and the maximum bytes of its answer. Ranges are split at the server's
/// limit.
pub fn elements(ranges: &[Range], id: [u8; 4], limits: Limits) -> (Vec<u8>, u64) {
    let mut body = Vec::new();
    let mut most = 0;
    for range in ranges {
        let mut offset = range.offset;
        while offset < range.end() && body.len() < ELEMENT * limits.elements {
            let length = (range.end() - offset).min(limits.bytes);
            body.extend_from_slice(&id);
            body.extend_from_slice(&(length as u32).to_be_bytes());
            body.extend_from_slice(&offset.to_be_bytes());
            offset += length;
            most += length + ELEMENT as u64;
        }
    }
    (body, most)
}

/// The ranges in an answer to `kXR_readv`, each after its own header, however the answer is divided.
#[derive(Default)]
pub struct VectorParts {
    head: Vec<u8>,
    offset: u64,
    left: usize,
}

impl VectorParts {
    /// Passes on file offset and bytes; returns false if no more are wanted.
    pub fn feed(&mut self, mut bytes: &[u8], take: &mut dyn FnMut(u64, &[u8]) -> bool) -> Result<bool> {
        while !bytes.is_empty() {
            if self.left == 0 {
                let (new, rest) = bytes.split_at((ELEMENT - self.head.len()).min(bytes.len()));
                self.head.extend_from_slice(new);
                bytes = rest;
                if self.head.len() < ELEMENT {
                    break;
                }
                let mut from = WireReader(&self.head);
                from.take(4)?;
                self.left = from.u32()? as usize;
                self.offset = from.u64()?;
                self.head.clear();
                if i32::try_from(self.left).is_err() || i64::try_from(self.offset).is_err() {
                    return Err(Error::new(ErrorKind::InvalidData, "the server sent an unexpected range"));
                }
                continue;
            }
            let (new, rest) = bytes.split_at(self.left.min(bytes.len()));
            bytes = rest;
            let at = self.offset;
            self.left -= new.len();
            self.offset += new.len() as u64;
            if !take(at, new) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
