//! Where etcd is.

use std::time::Duration;

use super::gateway::Gateway;
use crate::error::Result;

/// For so long who only asks if it is there waits.
const LONGEST: Duration = Duration::from_secs(5);

/// Where etcd is: the URLs of one of its servers, or of several that are one etcd.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Etcd {
    urls: Vec<String>,
}

impl Etcd {
    /// By the URLs that its servers serve clients at, with commas between them, such as
    /// `http://127.0.0.1:2379`. Where one does not answer, the next one is asked.
    ///
    /// # Errors
    /// One is none: a line that says so.
    pub fn new(urls: &str) -> std::result::Result<Etcd, String> {
        let urls = urls
            .split(',')
            .map(checked)
            .collect::<std::result::Result<_, _>>()?;
        Ok(Etcd { urls })
    }

    /// Makes sure that an etcd is there which members understand.
    ///
    /// # Errors
    /// There is none that answers within five seconds: a line that says what is there.
    pub async fn check(&self) -> Result<()> {
        Gateway::new(self, LONGEST).check().await
    }

    /// At least one, none of which ends with a slash.
    pub(super) fn urls(&self) -> &[String] {
        &self.urls
    }
}

/// The URL of a server, without a slash at its end.
fn checked(url: &str) -> std::result::Result<String, String> {
    let url = url.trim_end_matches('/');
    let refused = |why: &str| Err(format!("{url}: {why}, such as http://127.0.0.1:2379"));
    let Some(rest) = url.strip_prefix("http://") else {
        return refused("a URL that begins with http://");
    };
    let Some((host, port)) = rest.rsplit_once(':') else {
        return refused("a URL with a port");
    };
    let is_host = |it: char| it.is_ascii_alphanumeric() || "-._:[]".contains(it);
    match !host.is_empty() && host.chars().all(is_host) && port.parse::<u16>().is_ok() {
        true => Ok(url.into()),
        false => refused("a host and a port, and nothing else"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_of_hosts_and_ports() {
        for good in [
            "http://127.0.0.1:2379",
            "http://etcd-1.x:2379/",
            "http://[::1]:1",
            "http://a:1,http://b:2/",
        ] {
            let count = good.split(',').count();
            assert_eq!(Etcd::new(good).map(|it| it.urls.len()), Ok(count), "{good}");
        }
        for bad in [
            "",
            "127.0.0.1:2379",
            "https://a:2379",
            "http://a",
            "http://:1",
            "http://a:b",
            "http://a:99999",
            "http://a:1/v3",
            "http://a b:1",
            "http://a@b:1",
            "http://a:1,",
            "http://a:1,b:2",
            "http://a:1, http://b:2",
        ] {
            let line = Etcd::new(bad).unwrap_err();
            assert!(line.contains("such as http://127.0.0.1:2379"), "{line}");
            assert!(!line.contains('\n'));
        }
    }
}
