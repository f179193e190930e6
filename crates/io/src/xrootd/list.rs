//! Listing a folder: on one server, or on all servers that a redirector knows to have it.

use super::handle::{Stop, ask};
use super::session::{SMALL, Session};
use super::wire::{self, Answer, Target, kind};
use super::{Identity, LONGEST_PAUSE, MOST_HOPS, SHORTEST_PAUSE, address_of, small};
use crate::cancel;
use crate::ledger::said;
use crate::remote::Options;
use std::collections::BTreeMap;
use std::io::{Error, ErrorKind, Result};
use std::sync::Arc;
use std::time::Instant;

/// Maximum bytes of the names in a folder.
const MOST_NAMES: u64 = 256 << 20;
/// Option to return the status of each name.
const WITH_STAT: u8 = 2;
const IS_FOLDER: u32 = 2;

/// Returns the sorted names in a folder, and whether they are folders themselves.
pub fn list(url: &str, who: &Identity, options: &Options) -> Result<Vec<(String, bool)>> {
    let named = |error: Error| Error::new(error.kind(), format!("{url}: {error}"));
    let deadline = Instant::now() + options.timeout;
    let mut found = BTreeMap::new();
    let mut places = vec![(Stop::first(&address_of(url)?, who), 0)];
    let mut seen = 0;
    let mut listed = false;
    let mut missing = None;
    while let Some((stop, hops)) = places.pop() {
        seen += 1;
        if hops > MOST_HOPS || seen > 10_000 {
            return Err(named(Error::other("too many redirects")));
        }
        let session = Session::at(&stop.endpoint, deadline).map_err(|fault| named(fault.error))?;
        let server = stop.endpoint.server();
        let at = |error: Error| named(Error::new(error.kind(), format!("{server}: {error}")));
        let mut path = stop.path_with(&[]);
        let mut parameters = vec![0; 16];
        let (kind, most) = if session.stores { (kind::DIRLIST, MOST_NAMES) } else { (kind::LOCATE, SMALL) };
        if !session.stores {
            // A redirector returns the servers that have answered so far; with a star, all that may have the folder.
            path.insert(0, '*');
        } else if let Some(options) = parameters.last_mut() {
            *options = WITH_STAT;
        }
        match answered(&session, kind, &parameters, path.as_bytes(), most, deadline).map_err(at)? {
            (Answer::Done, text) if session.stores => {
                listed = true;
                found.extend(names(&text));
            }
            (Answer::Done, text) => {
                let servers = locations(&text).ok_or_else(|| {
                    at(Error::new(
                        ErrorKind::InvalidData,
                        format!("it returned {:?} as its list of servers", said(&text)),
                    ))
                })?;
                places.extend(servers.into_iter().map(|(host, port)| {
                    let to = Target {
                        host,
                        port,
                        tls: false,
                        path: None,
                        opaque: String::new(),
                        token: String::new(),
                    };
                    (stop.follow(to), hops + 1)
                }));
            }
            (Answer::Redirect(to), _) => places.push((stop.follow(to), hops + 1)),
            (Answer::Refused(no), _) => {
                let error = at(no.into());
                if error.kind() != ErrorKind::NotFound || hops == 0 {
                    return Err(error);
                }
                missing = Some(error);
            }
            _ => return Err(at(Error::new(ErrorKind::InvalidData, "the server sent an unexpected answer"))),
        }
    }
    match missing {
        Some(error) if !listed => Err(error),
        _ => Ok(found.into_iter().collect()),
    }
}

/// Returns an answer as text; waits as long as the server requests.
fn answered(
    session: &Arc<Session>,
    kind: u16,
    parameters: &[u8],
    body: &[u8],
    most: u64,
    deadline: Instant,
) -> Result<(Answer, String)> {
    loop {
        let stream = session.ask(ask(kind, parameters, body, most))?;
        let (answer, text) = small(stream, deadline, deadline)?;
        let Answer::Wait(wait, why) = answer else {
            return Ok((answer, String::from_utf8_lossy(&text).into_owned()));
        };
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Error::new(ErrorKind::TimedOut, format!("the folder was not listed in time: {why}")));
        }
        cancel::sleep(wait.clamp(SHORTEST_PAUSE, LONGEST_PAUSE).min(left));
    }
}

/// Returns the servers in an answer; `None` if one has an unknown form.
fn locations(text: &str) -> Option<Vec<(String, u16)>> {
    let words = text.split([' ', '\n', '\0']).filter(|word| !word.is_empty());
    words.map(wire::parse_location).collect()
}

/// Parses names, one on each line. If the first is a dot, a line with the status follows each name.
fn names(text: &str) -> Vec<(String, bool)> {
    let mut lines = text.split(['\n', '\0']).filter(|line| !line.is_empty());
    let is_other = |name: &str| name != "." && name != "..";
    if !text.starts_with(".\n") {
        return lines.filter(|name| is_other(name)).map(|name| (name.to_owned(), false)).collect();
    }
    let mut found = Vec::new();
    while let (Some(name), Some(about)) = (lines.next(), lines.next()) {
        let flags: u32 = about.split_ascii_whitespace().nth(2).and_then(|n| n.parse().ok()).unwrap_or(0);
        if is_other(name) {
            found.push((name.to_owned(), flags & IS_FOLDER != 0));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_that_are_named() {
        let server = |port| ("::127.0.0.1".to_owned(), port);
        assert_eq!(
            locations("Sr[::127.0.0.1]:38337 Sr[::127.0.0.1]:3\0"),
            Some(vec![server(38337), server(3)])
        );
        assert_eq!(locations("Sr[::127.0.0.1]:383x"), None);
        assert_eq!(locations("\0"), Some(vec![]));
    }

    #[test]
    fn names_with_and_without_what_they_are() {
        let folder = |name: &str, is| (name.to_owned(), is);
        let text = ".\n0 0 0 0\na.root\n1 5 16 9\nsub\n2 4096 19 9\0";
        assert_eq!(names(text), [folder("a.root", false), folder("sub", true)]);
        assert_eq!(names("a.root\nsub\0"), [folder("a.root", false), folder("sub", false)]);
        assert_eq!(names("..\n.\na.root\0"), [folder("a.root", false)]);
        assert_eq!(names(""), []);
        assert_eq!(names(".\n0 0 0 0\na.root"), []);
    }
}
