//! The lines of a request and of its answer, as written to a device (decision H20).
//!
//! Both lines start with the same text about caller and request, so the text is written and hashed
//! only once.

use super::device::AuditDevice;
use super::refusal::RefusalReason;
use super::subject::{AuditSubject, time};
use super::writer::AuditLineWriter;
use bulkhead_wire::response::Response;
use std::ops::Range;

/// Usual length of a line in bytes, allocated at once.
const USUAL_LINE_LEN: usize = 2 << 10;

/// Length of a hash with quotes.
const HASH: usize = 80;

/// The text that both lines of a request share, for a single device.
pub struct SharedLineText {
    text: Vec<u8>,
    /// Position of the mount's members in `text`.
    mount: Range<usize>,
}

impl SharedLineText {
    /// Writes the caller and the request.
    pub fn of(device: &AuditDevice, subject: &AuditSubject<'_>) -> Self {
        let writer = AuditLineWriter { device, subject };
        let mut text = Vec::with_capacity(USUAL_LINE_LEN);
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
    pub async fn request(
        &self,
        device: &AuditDevice,
        subject: &AuditSubject<'_>,
        refusal: &RefusalReason,
    ) -> bool {
        let (time, mut tail) = (time(subject.now), Vec::new());
        AuditLineWriter { device, subject }.end(refusal, &mut tail);
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
    pub async fn response(
        &self,
        device: &AuditDevice,
        subject: &AuditSubject<'_>,
        response: &Response,
        refusal: Option<&RefusalReason>,
    ) -> bool {
        let writer = AuditLineWriter { device, subject };
        let (time, mut tail) = (time(subject.now), Vec::with_capacity(USUAL_LINE_LEN));
        if let Some(caller) = subject.component_caller {
            tail.extend_from_slice(b",\"auth\":");
            writer.component_caller(caller, &mut tail);
        }
        tail.extend_from_slice(b",\"response\":");
        writer.response(response, self.text.get(self.mount.clone()).unwrap_or_default(), &mut tail);
        let refusal =
            refusal.map_or_else(|| RefusalReason::in_answer(response), RefusalReason::clone);
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
