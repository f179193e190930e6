//! URLs and headers: origins, redirections, secrets.

use std::io::Error;
use ureq::http::Uri;

/// Returns `host:port` of a URL, for messages. User information, path and query can hold secrets.
pub(super) fn server_of(url: &str) -> String {
    origin(url).map_or_else(String::new, |(_, host, port)| format!("{host}:{port}"))
}

/// Returns the text of an error about a file, without the name of the server if the URL has it already.
pub(super) fn told(url: &str, error: &Error) -> String {
    let text = error.to_string();
    let why = text.strip_prefix(&format!("{}: ", server_of(url))).unwrap_or(&text);
    format!("{url}: {why}")
}

/// Returns scheme, host and port of a URL: secrets are sent to one origin only.
pub(super) fn origin(url: &str) -> Option<(String, String, u16)> {
    let url: Uri = url.parse().ok()?;
    let scheme = url.scheme_str()?.to_ascii_lowercase();
    let port = url.port_u16().unwrap_or(if scheme == "https" { 443 } else { 80 });
    Some((scheme, url.host()?.to_ascii_lowercase(), port))
}

/// Parts of the names of headers that hold secrets.
pub(super) const SECRETS: [&str; 11] = [
    "auth",
    "cookie",
    "token",
    "key",
    "secret",
    "pass",
    "credential",
    "session",
    "signature",
    "jwt",
    "x-amz-",
];

/// Whether a header holds a secret: by its name, or by a value that begins with an authorization scheme.
pub(super) fn is_secret(name: &str, value: &str) -> bool {
    let (name, value) = (name.to_ascii_lowercase(), value.trim_start().to_ascii_lowercase());
    let schemes = ["bearer ", "basic ", "digest ", "negotiate ", "aws4-"];
    SECRETS.iter().any(|part| name.contains(part)) || schemes.iter().any(|scheme| value.starts_with(scheme))
}

/// Resolves the location of a redirection from `from` by RFC 3986.
pub(super) fn joined(from: &str, to: &str) -> String {
    let to = to.split('#').next().unwrap_or_default().trim();
    if to.split_once("://").is_some_and(|(scheme, _)| scheme.chars().all(|c| c.is_ascii_alphanumeric())) {
        return to.to_owned();
    }
    let (scheme, rest) = from.split_once("://").unwrap_or(("http", from));
    if let Some(to) = to.strip_prefix("//") {
        return format!("{scheme}://{to}");
    }
    let (server, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let path = path.split(['?', '#']).next().unwrap_or_default();
    if to.is_empty() || to.starts_with('?') {
        return format!("{scheme}://{server}{path}{to}");
    }
    let (way, query) = to.split_at(to.find('?').unwrap_or(to.len()));
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let whole = if way.starts_with('/') { way.to_owned() } else { format!("{folder}/{way}") };
    let mut parts: Vec<&str> = Vec::new();
    for part in whole.split('/').skip(1) {
        match part {
            "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    let end = if ["/.", "/.."].iter().any(|end| whole.ends_with(end)) { "/" } else { "" };
    format!("{scheme}://{server}/{}{end}{query}", parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remote::Fault;

    #[test]
    fn servers_have_names_without_secrets() {
        assert_eq!(server_of("https://me:secret@Host/f?token=x"), "host:443");
        assert_eq!(server_of("http://[::1]:8080/f"), "[::1]:8080");
        let error = Fault::lasting(Error::other("503")).at("host:80").error;
        assert_eq!(told("http://host/f", &error), "http://host/f: 503");
        assert_eq!(told("http://other/f", &error), "http://other/f: host:80: 503");
    }

    #[test]
    fn redirections_lead_from_where_they_are_met() {
        let from = "https://me@host:1/a/b/c?x=1";
        for (to, want) in [
            ("http://other/d?e", "http://other/d?e"),
            ("//other/d#f", "https://other/d"),
            ("/d/e?f=/g", "https://me@host:1/d/e?f=/g"),
            ("d", "https://me@host:1/a/b/d"),
            ("./d/../e/", "https://me@host:1/a/b/e/"),
            ("/d//e/../f", "https://me@host:1/d//f"),
            ("..", "https://me@host:1/a/"),
            ("../../../d", "https://me@host:1/d"),
            ("?y=http://z", "https://me@host:1/a/b/c?y=http://z"),
            ("d?y=http://z", "https://me@host:1/a/b/d?y=http://z"),
        ] {
            assert_eq!(joined(from, to), want, "{to}");
        }
        assert_eq!(joined("http://host", "d"), "http://host/d");
    }

    #[test]
    fn headers_that_hold_secrets() {
        let secret = [
            "Authorization",
            "proxy-authorization",
            "Cookie",
            "X-Amz-Security-Token",
            "X-Api-Key",
            "PRIVATE-TOKEN",
            "TransferHeaderAuthorization",
            "X-Vault-Token",
        ];
        for name in secret {
            assert!(is_secret(name, "x"), "{name}");
        }
        assert!(is_secret("X-Custom", "Bearer abc"));
        for name in ["X-Test", "Accept", "User-Agent", "Range", "Cache-Control"] {
            assert!(!is_secret(name, "x"), "{name}");
        }
    }
}
