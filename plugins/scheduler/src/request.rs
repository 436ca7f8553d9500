//! One request to the scheduler's API, as the host hands it over.

use crate::forward;
use crate::query::{Pairs, ReadQuery, is_pretty, read_query};
use crate::refusal::Refusal;
use bulkhead_sdk::Host;
use bulkhead_sdk::database_plugin::StoreTime;
use bulkhead_sdk::host::Storage;
use bulkhead_sdk::raw::{Reply, Request};
use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};
use std::time::Duration;

/// Bytes that are escaped in a path.
const PATH: &AsciiSet =
    &CONTROLS.add(b' ').add(b'"').add(b'#').add(b'%').add(b'<').add(b'>').add(b'?').add(b'`');

/// A method that some path knows. POST and PUT are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    /// GET.
    Read,
    /// POST and PUT.
    Write,
    /// DELETE.
    Delete,
    /// Any other, HEAD and PATCH among them: no path has it.
    Other,
}

impl Method {
    /// The method of that name.
    #[must_use]
    pub(crate) fn of(name: &str) -> Self {
        match name {
            "GET" => Self::Read,
            "POST" | "PUT" => Self::Write,
            "DELETE" => Self::Delete,
            _ => Self::Other,
        }
    }
}

/// One request. No `Debug`: headers hold a token.
pub(crate) struct ApiRequest<'a> {
    /// Everything outside of the component.
    pub(crate) host: &'a dyn Host,
    pub(crate) method: Method,
    /// Decoded segments of the path behind `/v1/`.
    pub(crate) segments: Vec<String>,
    query: Vec<(String, String)>,
    given: &'a Request,
}

impl<'a> ApiRequest<'a> {
    /// Reads a request. A path that begins with `v1/` is one of the whole API; any other path is
    /// what follows `/v1/acl/`.
    ///
    /// # Errors
    /// The answer to a path with empty or dot segments: 307 to the clean one.
    pub(crate) fn read(host: &'a dyn Host, given: &'a Request) -> Result<Self, Reply> {
        let path = decoded(&given.path);
        let clean = clean(&path);
        if clean != path {
            return Err(redirect(given, &clean));
        }
        let mut segments: Vec<String> = path.split('/').map(str::to_owned).collect();
        match segments.first().map(String::as_str) {
            Some("v1") => drop(segments.remove(0)),
            _ => segments.insert(0, "acl".to_owned()),
        }
        let method = Method::of(&given.method);
        Ok(Self { host, method, segments, query: pairs_of(&given.query), given })
    }

    /// The mount's own records.
    #[must_use]
    pub(crate) fn storage(&self) -> &'a dyn Storage {
        self.host.storage()
    }

    /// Store time.
    #[must_use]
    pub(crate) fn now(&self) -> StoreTime {
        self.host.clock().now()
    }

    /// The decoded pairs of the query.
    #[must_use]
    pub(crate) fn pairs(&self) -> &Pairs {
        &self.query
    }

    /// The parameters of a read.
    ///
    /// # Errors
    /// 400 for the first parameter that cannot be read; 500 for an unknown region; the answer of
    /// the authoritative region where the query names that region.
    pub(crate) fn read_query(&self) -> Result<ReadQuery, Refusal> {
        let query = read_query(&self.query)?;
        forward::read_elsewhere(self, &query.region)?;
        Ok(query)
    }

    /// Headers that carry a token, in their order, with names in lower case.
    #[must_use]
    pub(crate) fn headers(&self) -> &[(String, String)] {
        &self.given.headers
    }

    /// Bytes as they came.
    #[must_use]
    pub(crate) fn body(&self) -> &[u8] {
        &self.given.body
    }

    /// The method as it was sent.
    #[must_use]
    pub(crate) fn verb(&self) -> &str {
        &self.given.method
    }

    /// The path as it was sent, behind the mount's root.
    #[must_use]
    pub(crate) fn raw_path(&self) -> &str {
        &self.given.path
    }

    /// The query as it was sent.
    #[must_use]
    pub(crate) fn raw_query(&self) -> &str {
        &self.given.query
    }

    /// Whether the answer is indented.
    #[must_use]
    pub(crate) fn is_pretty(&self) -> bool {
        is_pretty(&self.query)
    }

    /// Whether the mount takes any text as a prefix (option `lenient_prefix`).
    #[must_use]
    pub(crate) fn is_lenient(&self) -> bool {
        let options = self.given.mount.options.iter();
        options.into_iter().any(|(name, value)| name == "lenient_prefix" && value == "true")
    }

    /// The time to wait: up to a sixteenth longer than was asked for, so that clients that began
    /// together do not end together.
    #[must_use]
    pub(crate) fn wait(&self, query: &ReadQuery) -> Duration {
        let random = self.host.random().bytes(2);
        let random = random.iter().fold(0, |number, byte| number * 256 + u32::from(*byte));
        query.wait + query.wait / 16 * random / 65_536
    }
}

/// The path with its escapes decoded: an escaped slash is a separator.
fn decoded(path: &str) -> String {
    percent_decode_str(path).decode_utf8_lossy().into_owned()
}

/// The path without empty and dot segments. A slash at the end stays.
fn clean(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let ends = path.split('/').next_back().is_some_and(|last| ["", ".", ".."].contains(&last));
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(kept.pop()),
            segment => kept.push(segment),
        }
    }
    if ends && !kept.is_empty() {
        kept.push("");
    }
    kept.join("/")
}

/// 307 to the clean path.
fn redirect(given: &Request, clean: &str) -> Reply {
    let escaped = utf8_percent_encode(clean, PATH);
    let query = if given.query.is_empty() { String::new() } else { format!("?{}", given.query) };
    let location = format!("{}{escaped}{query}", given.base);
    let headers = vec![("Location".to_owned(), location)];
    Reply { status: 307, headers, body: Vec::new(), park: None }
}

/// The pairs of a query in their order, decoded.
fn pairs_of(query: &str) -> Vec<(String, String)> {
    let decode = |text: &str| decoded(&text.replace('+', " "));
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .map(|(name, value)| (decode(name), decode(value)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{clean, pairs_of};

    #[test]
    fn paths_are_cleaned_as_the_scheduler_cleans_them() {
        for (path, expected) in [
            ("v1/acl/role/x", "v1/acl/role/x"),
            ("v1/acl/role/", "v1/acl/role/"),
            ("v1//acl/./roles", "v1/acl/roles"),
            ("v1/acl/x/../roles", "v1/acl/roles"),
            ("../v1/acl/role/..", "v1/acl/"),
            ("", ""),
        ] {
            assert_eq!(clean(path), expected, "{path}");
        }
    }

    #[test]
    fn a_query_is_decoded_pair_by_pair() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(
            pairs_of("stale&wait=1%6ds&prefix=a+b&&x=1=2"),
            [pair("stale", ""), pair("wait", "1ms"), pair("prefix", "a b"), pair("x", "1=2")]
        );
    }
}
