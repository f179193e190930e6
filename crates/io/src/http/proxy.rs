//! Proxies of the environment.

use super::Fault;
use std::env;
use std::io::Error;
use ureq::Proxy;
use ureq::ProxyProtocol;
use ureq::http::Uri;

/// The environment variables that name a proxy. The first one that is set counts.
const PROXIES: [&str; 6] =
    ["ALL_PROXY", "all_proxy", "HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"];
const EXCEPTIONS: [&str; 2] = ["NO_PROXY", "no_proxy"];

/// A proxy of the environment that cannot be used.
#[derive(Clone)]
pub(super) struct Unusable {
    variable: &'static str,
    /// Knows the hosts that are reached directly.
    exceptions: Option<Proxy>,
}

impl Unusable {
    /// Returns the proxy that the environment names, if it cannot be used.
    pub(super) fn find() -> Option<Self> {
        Self::among(|name| env::var_os(name).map(|value| value.to_string_lossy().into_owned()))
    }

    fn among(value_of: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let set = |name: &'static str| Some((name, value_of(name).filter(|value| !value.is_empty())?));
        let (variable, value) = PROXIES.into_iter().find_map(set)?;
        let usable = |proxy: Proxy| matches!(proxy.protocol(), ProxyProtocol::Http | ProxyProtocol::Https);
        if Proxy::new(&value).is_ok_and(usable) {
            return None;
        }
        let exceptions = EXCEPTIONS.into_iter().find_map(set).and_then(|(_, hosts)| {
            let any = Proxy::builder(ProxyProtocol::Http);
            hosts.split(',').fold(any, |proxy, host| proxy.no_proxy(host.trim())).build().ok()
        });
        Some(Self { variable, exceptions })
    }

    /// Refuses a request that would go to the server directly. The error does not show the value, which may have a
    /// password.
    pub(super) fn check(&self, url: &str) -> Result<(), Fault> {
        let direct = |proxy: &Proxy| url.parse::<Uri>().is_ok_and(|uri| proxy.is_no_proxy(&uri));
        if self.exceptions.as_ref().is_some_and(direct) {
            return Ok(());
        }
        let variable = self.variable;
        Err(Fault::lasting(Error::other(format!(
            "the proxy of the environment variable {variable} cannot be used: it must be a URL with http:// or https://"
        ))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(variables: &[(&str, &str)]) -> Option<Unusable> {
        Unusable::among(|name| {
            variables.iter().find(|(own, _)| *own == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn a_proxy_that_cannot_be_used_is_no_direct_connection() {
        for bad in ["socks5://u:p@h:1", "ftp://h", "http://[::1", " http://h", "http://h:1/\u{1b}"] {
            let unusable = found(&[("https_proxy", bad), ("http_proxy", "http://h:1")]).unwrap();
            let error = unusable.check("https://server/a").unwrap_err().error.to_string();
            assert!(error.contains("https_proxy") && !error.contains("u:p"), "{error}");
        }
        for good in ["http://u:p@h:1", "https://h", "h:3128", "localhost"] {
            assert!(found(&[("ALL_PROXY", good), ("http_proxy", "ftp://h")]).is_none(), "{good}");
        }
        assert!(found(&[("ALL_PROXY", "")]).is_none());
    }

    #[test]
    fn hosts_that_need_no_proxy_are_reached() {
        let unusable = found(&[("ALL_PROXY", "socks5://h"), ("no_proxy", "a.org, .b.org")]).unwrap();
        for (url, direct) in [("http://a.org/x", true), ("https://c.b.org", true), ("http://c.org", false)] {
            assert_eq!(unusable.check(url).is_ok(), direct, "{url}");
        }
    }
}
