//! The lines of a request and of its answer, as one device writes them (decision H20).
//!
//! Both lines begin with who asked and what, so that this is written once and its hashes are made
//! once.

use super::device::Device;
use super::writer::Writer;
use crate::mounts::{MountRecord, Running};
use crate::tokens::Caller;
use bulkhead_wire::description::Operation;
use bulkhead_wire::request::Request;
use bulkhead_wire::response::{Body, Response};
use bulkhead_wire::route::Table;
use std::ops::Range;
use std::sync::Arc;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// What an ordinary request takes, so that its text grows once.
const USUAL: usize = 2 << 10;

/// What a hash takes, with its quotes.
const HASH: usize = 80;

/// What is known of a request when it is written down.
pub(crate) struct Subject<'a> {
    pub(crate) request: &'a Request,
    pub(crate) operation: Operation,
    /// `None` where the token is missing or none of ours.
    pub(crate) caller: Option<&'a Caller>,
    /// `None` where no row answers to it.
    pub(crate) route: Option<Described<'a>>,
    /// What policy says; `None` where policy was not asked.
    pub(crate) verdict: Option<&'a Verdict>,
    /// It was refused before anything was entered.
    pub(crate) is_refused: bool,
    /// Store time of the line, in milliseconds.
    pub(crate) now: u64,
}

/// What policy says of a request.
pub(crate) enum Verdict {
    /// Allowed, by the policies of these names.
    Allowed(Arc<[Arc<str>]>),
    Denied,
}

/// What a route table says of a request.
pub(crate) struct Described<'a> {
    pub(crate) table: &'a Table,
    /// Name and text of each capture of the path.
    pub(crate) captures: &'a [(String, String)],
    /// The mount that serves, or the part of the server.
    pub(crate) mount: &'a MountRecord,
    pub(crate) running: Running<'a>,
}

/// What both lines of a request say, on one device.
pub(crate) struct Entry {
    text: Vec<u8>,
    /// The members that tell the mount.
    mount: Range<usize>,
}

impl Entry {
    /// Writes who asks and what.
    pub(crate) fn of(device: &Device, subject: &Subject<'_>) -> Self {
        let writer = Writer { device, subject };
        let mut text = Vec::with_capacity(USUAL);
        let (mut token, mut accessor) = (Vec::with_capacity(HASH), Vec::with_capacity(HASH));
        if let Some(sent) = subject.request.token.as_ref().filter(|sent| !sent.expose().is_empty())
        {
            writer.hashed(sent.expose(), &mut token);
        }
        if let Some(caller) = subject.caller {
            writer.accessor(&caller.record.accessor, &mut accessor);
            text.extend_from_slice(b"\"auth\":");
            writer.caller(caller, (&token, &accessor), &mut text);
            text.push(b',');
        }
        text.extend_from_slice(b"\"request\":");
        let mount = writer.request((&token, &accessor), &mut text);
        Self { text, mount }
    }

    /// Records the request, with the reason where it is refused. `false` when it is not recorded.
    pub(crate) async fn request(
        &self,
        device: &Device,
        subject: &Subject<'_>,
        refusal: &str,
    ) -> bool {
        let (time, mut tail) = (time(subject.now), Vec::new());
        Writer { device, subject }.end(refusal, &mut tail);
        device
            .record(&[
                b"{\"time\":\"",
                time.as_bytes(),
                b"\",\"type\":\"request\",",
                &self.text,
                &tail,
            ])
            .await
    }

    /// Records the answer. `false` when it is not recorded.
    pub(crate) async fn response(
        &self,
        device: &Device,
        subject: &Subject<'_>,
        response: &Response,
    ) -> bool {
        let writer = Writer { device, subject };
        let (time, mut tail) = (time(subject.now), Vec::with_capacity(USUAL));
        tail.extend_from_slice(b",\"response\":");
        writer.response(response, self.text.get(self.mount.clone()).unwrap_or_default(), &mut tail);
        writer.end(&errors(response), &mut tail);
        device
            .record(&[
                b"{\"time\":\"",
                time.as_bytes(),
                b"\",\"type\":\"response\",",
                &self.text,
                &tail,
            ])
            .await
    }
}

/// What an answer says is wrong, in one text.
pub(crate) fn errors(response: &Response) -> String {
    match &response.body {
        Body::Errors(errors) => errors.join("; "),
        _ => String::new(),
    }
}

/// RFC 3339 in UTC, of milliseconds since 1970.
pub(super) fn time(milliseconds: u64) -> String {
    let moment = OffsetDateTime::from_unix_timestamp_nanos(i128::from(milliseconds) * 1_000_000);
    moment.ok().and_then(|moment| moment.format(&Rfc3339).ok()).unwrap_or_default()
}
