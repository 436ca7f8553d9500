//! A request to the scheduler's API, as received from the host.

use crate::query::{QueryPairs, ReadQuery, is_pretty};
use bulkhead_sdk::Host;
use bulkhead_sdk::database_plugin::StoreTime;
use bulkhead_sdk::host::Storage;
use bulkhead_sdk::raw::{RawCaller, RawReply, RawRequest};
use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};
use std::cell::RefCell;
use std::time::Duration;

/// Characters that are escaped in a path.
const PATH: &AsciiSet =
    &CONTROLS.add(b' ').add(b'"').add(b'#').add(b'%').add(b'<').add(b'>').add(b'?').add(b'`');

/// A method that some endpoint supports. POST and PUT are equivalent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ApiMethod {
    /// GET.
    Read,
    /// POST and PUT.
    Write,
    /// DELETE.
    Delete,
    /// Any other method, such as HEAD and PATCH. No endpoint supports these.
    Other,
}

impl ApiMethod {
    /// Returns the method of that name.
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

/// A request. No `Debug`: headers contain a token.
pub(crate) struct ApiRequest<'a> {
    /// Access to everything outside the component.
    pub(crate) host: &'a dyn Host,
    pub(crate) method: ApiMethod,
    /// Decoded segments of the path after `/v1/`.
    pub(crate) segments: Vec<String>,
    query: Vec<(String, String)>,
    given: &'a RawRequest,
    /// The caller, once authenticated by a token.
    caller: RefCell<Option<RawCaller>>,
}

impl<'a> ApiRequest<'a> {
    /// Parses a request. A path that begins with `v1/` is a path of the whole API; any other path
    /// is relative to `/v1/acl/`.
    ///
    /// # Errors
    /// A redirect (307) to the clean path if the path contains empty or dot segments.
    pub(crate) fn read(host: &'a dyn Host, raw: &'a RawRequest) -> Result<Self, RawReply> {
        let path = decoded(&raw.path);
        let clean = clean(&path);
        if clean != path {
            return Err(redirect(raw, &clean));
        }
        let mut segments: Vec<String> = path.split('/').map(str::to_owned).collect();
        match segments.first().map(String::as_str) {
            Some("v1") => drop(segments.remove(0)),
            _ => segments.insert(0, "acl".to_owned()),
        }
        let method = ApiMethod::of(&raw.method);
        let query = pairs_of(&raw.query);
        Ok(Self { host, method, segments, query, given: raw, caller: RefCell::default() })
    }

    /// Notes the caller, for the host's audit log.
    pub(crate) fn note_caller(&self, accessor: &str, name: &str) {
        let (accessor, display_name) = (accessor.to_owned(), name.to_owned());
        self.caller.replace(Some(RawCaller { accessor, display_name }));
    }

    /// Returns the caller, if a token was found valid.
    #[must_use]
    pub(crate) fn known_caller(&self) -> Option<RawCaller> {
        self.caller.borrow().clone()
    }

    /// Returns the mount's own storage.
    #[must_use]
    pub(crate) fn storage(&self) -> &'a dyn Storage {
        self.host.storage()
    }

    /// Returns the store time.
    #[must_use]
    pub(crate) fn now(&self) -> StoreTime {
        self.host.clock().now()
    }

    /// Returns the decoded pairs of the query.
    #[must_use]
    pub(crate) fn pairs(&self) -> &QueryPairs {
        &self.query
    }

    /// Returns the declared headers in order, with names in lower case.
    #[must_use]
    pub(crate) fn headers(&self) -> &[(String, String)] {
        &self.given.headers
    }

    /// Returns the body as received.
    #[must_use]
    pub(crate) fn body(&self) -> &[u8] {
        &self.given.body
    }

    /// Returns the method as received.
    #[must_use]
    pub(crate) fn verb(&self) -> &str {
        &self.given.method
    }

    /// Returns the path as received, relative to the mount's root.
    #[must_use]
    pub(crate) fn raw_path(&self) -> &str {
        &self.given.path
    }

    /// Returns the query as received.
    #[must_use]
    pub(crate) fn raw_query(&self) -> &str {
        &self.given.query
    }

    /// Returns true if the answer is to be indented.
    #[must_use]
    pub(crate) fn is_pretty(&self) -> bool {
        is_pretty(&self.query)
    }

    /// Returns true if the mount accepts any text as a prefix (option `lenient_prefix`).
    #[must_use]
    pub(crate) fn is_lenient(&self) -> bool {
        let options = self.given.mount.options.iter();
        options.into_iter().any(|(name, value)| name == "lenient_prefix" && value == "true")
    }

    /// Returns the time to wait, extended at random by up to a sixteenth, so that clients that
    /// started together do not finish together.
    #[must_use]
    pub(crate) fn wait(&self, query: &ReadQuery) -> Duration {
        let random = self.host.random().bytes(2);
        let random = random.iter().fold(0, |number, byte| number * 256 + u32::from(*byte));
        query.wait + query.wait / 16 * random / 65_536
    }
}

/// Decodes the escapes of a path: an escaped slash becomes a separator.
fn decoded(path: &str) -> String {
    percent_decode_str(path).decode_utf8_lossy().into_owned()
}

/// Removes empty and dot segments from the path. A trailing slash stays.
fn clean(path: &str) -> String {
    let mut segments: Vec<&str> = Vec::new();
    let ends = path.split('/').next_back().is_some_and(|last| ["", ".", ".."].contains(&last));
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(segments.pop()),
            segment => segments.push(segment),
        }
    }
    if ends && !segments.is_empty() {
        segments.push("");
    }
    segments.join("/")
}

/// Creates the redirect (307) to the clean path.
fn redirect(raw: &RawRequest, clean: &str) -> RawReply {
    let escaped = utf8_percent_encode(clean, PATH);
    let query = if raw.query.is_empty() { String::new() } else { format!("?{}", raw.query) };
    let location = format!("{}{escaped}{query}", raw.base);
    let headers = vec![("Location".to_owned(), location)];
    RawReply { status: 307, headers, ..RawReply::default() }
}

/// Parses a query into decoded pairs, in order.
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
