//! The lines of a request and of its answer, as written to a device (decision H20).
//!
//! Both lines start with the same text about caller and request, so the text is written and hashed
//! only once.

use super::device::Device;
use super::refusal::Refusal;
use super::subject::{Subject, time};
use super::writer::Writer;
use bulkhead_wire::response::Response;
use std::ops::Range;

/// Usual length of a line in bytes, allocated at once.
const USUAL: usize = 2 << 10;

/// Length of a hash with quotes.
const HASH: usize = 80;

/// The text that both lines of a request share, for a single device.
pub(crate) struct Entry {
    text: Vec<u8>,
    /// Position of the mount's members in `text`.
    mount: Range<usize>,
}

impl Entry {
    /// Writes the caller and the request.
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

    /// Records the request, with the reason if it is refused. Returns `false` if nothing was
    /// recorded.
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

    /// Records the answer. Returns `false` if nothing was recorded.
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
