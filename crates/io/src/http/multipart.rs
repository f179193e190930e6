//! `multipart/byteranges`: several ranges in one answer.

use super::parse_content_range;
use crate::plan::Range;
use std::io::{BufRead, BufReader, Error, ErrorKind, Read, Result};
use ureq::http::HeaderMap;

/// Bytes of a line between parts.
const LONGEST_LINE: u64 = 8 << 10;
/// Lines between two parts.
const MOST_LINES: usize = 100;

/// What stands between the parts of an answer that has any.
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

/// The parts of an answer, one after another.
pub struct Parts<R> {
    from: BufReader<R>,
    border: String,
}

impl<R: Read> Parts<R> {
    pub fn new(from: R, boundary: &str) -> Self {
        Self { from: BufReader::with_capacity(64 << 10, from), border: format!("--{boundary}") }
    }

    fn line(&mut self) -> Result<String> {
        let mut line = Vec::new();
        (&mut self.from).take(LONGEST_LINE).read_until(b'\n', &mut line)?;
        if line.last() != Some(&b'\n') && line != format!("{}--", self.border).as_bytes() {
            return Err(Error::new(ErrorKind::UnexpectedEof, "the connection was cut between two ranges"));
        }
        Ok(String::from_utf8_lossy(&line).trim_end().to_owned())
    }

    /// Goes to the next part, of which all bytes must have been read; gives its range and the size of the file.
    pub fn next_part(&mut self) -> Result<Option<(Range, u64)>> {
        let wrong = || Error::new(ErrorKind::InvalidData, "ranges that cannot be told apart");
        let mut lines = 0;
        loop {
            let line = self.line()?;
            if line == self.border {
                break;
            }
            if line.strip_suffix("--") == Some(&self.border) {
                return Ok(None);
            }
            lines += 1;
            if !line.is_empty() || lines > MOST_LINES {
                return Err(wrong());
            }
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
            let mut bytes = vec![0; range.length as usize];
            parts.read_exact(&mut bytes)?;
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
}
