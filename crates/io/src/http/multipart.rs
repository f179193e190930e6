//! `multipart/byteranges`: several ranges in one answer.

use super::answer::parse_content_range;
use crate::plan::Range;
use memchr::memmem;
use std::io::{BufRead, BufReader, Error, ErrorKind, Read, Result};
use ureq::http::HeaderMap;

/// Maximum bytes of a line between parts.
const LONGEST_LINE: u64 = 8 << 10;
/// Maximum number of lines between two parts.
const MOST_LINES: usize = 100;

/// Returns the boundary of a multipart answer.
pub fn boundary(headers: &HeaderMap) -> Option<String> {
    let kind = headers.get("content-type")?.to_str().ok()?;
    let (name, parameters) = kind.split_once(';')?;
    if !name.trim().eq_ignore_ascii_case("multipart/byteranges") {
        return None;
    }
    parameters.split(';').find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim().eq_ignore_ascii_case("boundary").then(|| value.trim().trim_matches('"').to_owned())
    })
}

/// The parts of an answer, in order.
pub struct Parts<R> {
    from: BufReader<R>,
    border: String,
    /// `None` until the boundary after a part was read; then whether another part follows.
    after: Option<bool>,
}

fn wrong() -> Error {
    Error::new(ErrorKind::InvalidData, "the ranges of the answer cannot be distinguished")
}

impl<R: Read> Parts<R> {
    pub fn new(from: R, boundary: &str) -> Self {
        Self { from: BufReader::with_capacity(64 << 10, from), border: format!("--{boundary}"), after: None }
    }

    fn line(&mut self) -> Result<String> {
        let mut line = Vec::new();
        (&mut self.from).take(LONGEST_LINE).read_until(b'\n', &mut line)?;
        if line.last() != Some(&b'\n') && line != format!("{}--", self.border).as_bytes() {
            return Err(Error::new(ErrorKind::UnexpectedEof, "the connection was cut between two ranges"));
        }
        Ok(String::from_utf8_lossy(&line).trim_end().to_owned())
    }

    /// Reads empty lines up to a boundary; returns whether a part follows.
    fn border(&mut self) -> Result<bool> {
        let mut lines = 0;
        loop {
            let line = self.line()?;
            let ends = line.strip_suffix("--") == Some(&self.border);
            if ends || line == self.border {
                return Ok(!ends);
            }
            lines += 1;
            if !line.is_empty() || lines > MOST_LINES {
                return Err(wrong());
            }
        }
    }

    /// Reads the bytes of a part, as many as its range has. They are valid only if this succeeds: the boundary must
    /// follow exactly. Returns false if `wanted`, which is called from time to time, reports that they are no longer
    /// needed.
    pub fn part(
        &mut self,
        range: Range,
        bytes: &mut Vec<u8>,
        wanted: &mut dyn FnMut() -> bool,
    ) -> Result<bool> {
        bytes.clear();
        let length = usize::try_from(range.length).map_err(|_| wrong())?;
        let full = |_| Error::new(ErrorKind::OutOfMemory, format!("no memory for a range of {length} bytes"));
        while bytes.len() < length {
            let piece = self.from.fill_buf()?;
            let piece = piece.get(..piece.len().min(length - bytes.len())).unwrap_or_default();
            if piece.is_empty() {
                return Err(Error::new(ErrorKind::UnexpectedEof, "the connection was cut"));
            }
            bytes.try_reserve(piece.len()).map_err(full)?;
            bytes.extend_from_slice(piece);
            let taken = piece.len();
            self.from.consume(taken);
            if !wanted() {
                return Ok(false);
            }
        }
        let mut end = [0; 2];
        self.from.read_exact(&mut end)?;
        if end != *b"\r\n" {
            return Err(wrong());
        }
        let follows = self.border()?;
        let border = format!("\r\n{}\r\n", self.border);
        if memmem::find(bytes, border.as_bytes()).is_some() {
            return Err(wrong());
        }
        self.after = Some(follows);
        Ok(true)
    }

    /// Moves to the next part, after all bytes of the current one were read; returns its range and the size of the
    /// file.
    pub fn next_part(&mut self) -> Result<Option<(Range, u64)>> {
        let follows = match self.after.take() {
            Some(follows) => follows,
            None => self.border()?,
        };
        if !follows {
            return Ok(None);
        }
        let mut place = None;
        for _ in 0..MOST_LINES {
            let line = self.line()?;
            if line.is_empty() {
                return place.ok_or_else(wrong).map(Some);
            }
            if let Some((name, value)) = line.split_once(':')
                && name.trim().eq_ignore_ascii_case("content-range")
            {
                place = parse_content_range(value);
            }
        }
        Err(wrong())
    }
}

impl<R: Read> Read for Parts<R> {
    /// Reads the bytes after the last part.
    fn read(&mut self, out: &mut [u8]) -> Result<usize> {
        self.from.read(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str) -> Result<Vec<(u64, String)>> {
        let mut parts = Parts::new(text.as_bytes(), "b");
        let mut found = Vec::new();
        while let Some((range, _)) = parts.next_part()? {
            let mut bytes = Vec::new();
            assert!(parts.part(range, &mut bytes, &mut || true)?);
            found.push((range.offset, String::from_utf8_lossy(&bytes).into_owned()));
        }
        Ok(found)
    }

    #[test]
    fn parts_and_broken_parts() {
        let good = "\r\n--b\r\nContent-Type: x\r\nContent-Range: bytes 2-4/9\r\n\r\n--b\r\n--b\r\ncontent-range:bytes \
                    7-7/9\r\n\r\nh\r\n--b--";
        assert_eq!(parts(good).unwrap(), [(2, "--b".to_owned()), (7, "h".to_owned())]);
        assert_eq!(parts("--b--\r\n").unwrap(), []);
        for bad in ["", "--b", "text\r\n", "--b\r\n\r\n", "--b\r\nContent-Range: bytes 2-4/9\r\n\r\nab"] {
            assert!(parts(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn parts_of_another_length_than_their_range() {
        let part = |bytes: &str| format!("\r\n--b\r\nContent-Range: bytes 0-7/99\r\n\r\n{bytes}");
        let whole = part("abcdefgh");
        assert_eq!(parts(&(whole.clone() + &whole + "\r\n--b--\r\n")).unwrap().len(), 2);
        for bytes in ["", "a", "abc", "abcd", "abcdef", "abcdefg", "abcdefghi", "abcdefghijkl"] {
            for text in [part(bytes) + "\r\n--b--\r\n", part(bytes) + &whole + "\r\n--b--\r\n"] {
                assert!(parts(&text).is_err(), "{text:?}");
            }
        }
        // Two parts that together have the length that the first one claims.
        let inner = "\r\n--b\r\nContent-Range: bytes 5-5/99\r\n\r\nxyz";
        let text = format!("--b\r\nContent-Range: bytes 0-{}/99\r\n\r\n{inner}\r\n--b--", inner.len() - 1);
        assert!(parts(&text).is_err());
        // The boundary was not read yet.
        assert!(parts(&part("abcdefgh")).is_err());
        assert!(parts(&(part("abcdefgh") + "\r\n")).is_err());
    }
}
