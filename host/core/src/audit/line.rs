//! The lines of a request and of its answer, as one device writes them (decision H20).
//!
//! Both lines begin with who asked and what, so that this is written once and its hashes are made
//! once.

use super::device::Device;
use super::refusal::Refusal;
use super::subject::{Subject, time};
use super::writer::Writer;
use bulkhead_wire::response::Response;
use std::ops::Range;

/// What an ordinary request takes, so that its text grows once.
const USUAL: usize = 2 << 10;

/// What a hash takes, with its quotes.
const HASH: usize = 80;

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
            writer.write_hashed(sent.expose(), &mut token);
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
        refusal: &Refusal,
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
        refusal: Option<&Refusal>,
    ) -> bool {
        let writer = Writer { device, subject };
        let (time, mut tail) = (time(subject.now), Vec::with_capacity(USUAL));
        tail.extend_from_slice(b",\"response\":");
        writer.response(response, self.text.get(self.mount.clone()).unwrap_or_default(), &mut tail);
        let refusal = refusal.map_or_else(|| Refusal::in_answer(response), Refusal::clone);
        writer.end(&refusal, &mut tail);
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
