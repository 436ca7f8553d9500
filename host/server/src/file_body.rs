//! Reception of a body into a file, in bounded memory.
//!
//! This file prevents a client that sends nothing, or a byte at a time, from blocking the only
//! reception of the server: silence and the whole reception have limits. A client that disconnects
//! drops the reception, and with it the file.

use bulkhead_api::FileReceptions;
use bulkhead_wire::failure::Failure;
use bulkhead_wire::request::ReceivedFile;
use http_body_util::BodyExt;
use hyper::body::{Body, Bytes};
use std::pin::pin;
use std::time::Duration;
use tokio::time::timeout;

/// Maximum time for a body to arrive that is stored in a file.
const FILE_BODY_TIME: Duration = Duration::from_secs(3_600);

/// Maximum time during which nothing of such a body arrives.
const SILENCE_TIME: Duration = Duration::from_secs(30);

/// The timeouts of a body, which a test may choose.
#[derive(Clone, Copy)]
pub(crate) struct FileBodyTimeouts {
    /// Timeout of the whole body.
    pub(crate) whole: Duration,
    /// Timeout of the next bytes.
    pub(crate) silence: Duration,
}

impl Default for FileBodyTimeouts {
    fn default() -> Self {
        Self { whole: FILE_BODY_TIME, silence: SILENCE_TIME }
    }
}

/// Receives a body into a file. Returns the file and the length of the body in bytes. The file of
/// an incomplete body is removed.
///
/// # Errors
/// 400 if the body ends early or arrives too slowly; otherwise as [`FileReceptions::begin`] and
/// [`bulkhead_api::FileReception::write`].
pub(crate) async fn receive<B>(
    body: B,
    receptions: &FileReceptions,
    timeouts: FileBodyTimeouts,
) -> Result<(ReceivedFile, u64), Failure>
where
    B: Body<Data = Bytes>,
{
    let received = timeout(timeouts.whole, store(body, receptions, timeouts.silence));
    received.await.map_err(|_| {
        let seconds = timeouts.whole.as_secs();
        Failure::invalid(format!("the body did not arrive within {seconds} s")).recordable()
    })?
}

async fn store<B>(
    body: B,
    receptions: &FileReceptions,
    silence: Duration,
) -> Result<(ReceivedFile, u64), Failure>
where
    B: Body<Data = Bytes>,
{
    let mut reception = receptions.begin(body.size_hint().exact())?;
    let mut body = pin!(body);
    loop {
        let frame = timeout(silence, body.frame()).await.map_err(|_| {
            let seconds = silence.as_secs();
            Failure::invalid(format!("nothing of the body arrived for {seconds} s")).recordable()
        })?;
        let Some(frame) = frame else { return reception.finish().await };
        let frame = frame.map_err(|_| Failure::invalid("the body ended too early"))?;
        // Trailers are not used.
        if let Ok(chunk) = frame.into_data() {
            reception.write(&chunk).await?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bulkhead_wire::failure::FailureKind;
    use hyper::body::{Frame, SizeHint};
    use std::convert::Infallible;
    use std::fs;
    use std::path::PathBuf;
    use std::pin::Pin;
    use std::task::{Context, Poll};

    const MIB: usize = 1 << 20;

    /// A body of `left` frames of 1 MiB that ends, stalls or breaks off.
    struct TestBody {
        left: usize,
        end: TestEnd,
    }

    #[derive(Clone, Copy, PartialEq, Eq)]
    enum TestEnd {
        Complete,
        Silent,
        Broken,
    }

    impl Body for TestBody {
        type Data = Bytes;
        type Error = &'static str;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, &'static str>>> {
            match (self.left.checked_sub(1), self.end) {
                (Some(left), _) => {
                    self.left = left;
                    Poll::Ready(Some(Ok(Frame::data(Bytes::from(vec![b'a'; MIB])))))
                }
                (None, TestEnd::Complete) => Poll::Ready(None),
                (None, TestEnd::Silent) => Poll::Pending,
                (None, TestEnd::Broken) => Poll::Ready(Some(Err("reset"))),
            }
        }
    }

    /// A folder of this process, removed at the end of the test.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let name = format!("bulkhead-file-body-{name}-{}", std::process::id());
            let path = std::env::temp_dir().join(name);
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        fn count(&self) -> usize {
            fs::read_dir(&self.0).unwrap().count()
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).unwrap();
        }
    }

    #[tokio::test]
    async fn body_larger_than_listener_limit_is_stored() {
        let folder = Folder::new("large");
        let receptions = FileReceptions::new(&folder.0);
        let body = TestBody { left: 70, end: TestEnd::Complete };
        let received = receive(body, &receptions, FileBodyTimeouts::default()).await;
        let (file, length) = received.unwrap();
        assert_eq!(length, 70 << 20);
        assert_eq!(fs::metadata(file.path()).unwrap().len(), length);
        drop(file);
        assert_eq!(folder.count(), 0);
    }

    #[tokio::test]
    async fn silent_slow_and_broken_bodies_leave_nothing() {
        let folder = Folder::new("broken");
        let receptions = FileReceptions::new(&folder.0);
        let (moment, hour) = (Duration::from_millis(50), Duration::from_secs(3_600));
        for (end, whole, silence, part) in [
            (TestEnd::Silent, hour, moment, "nothing of the body arrived"),
            (TestEnd::Silent, moment, hour, "did not arrive within"),
            (TestEnd::Broken, hour, hour, "ended too early"),
        ] {
            let body = TestBody { left: 1, end };
            let timeouts = FileBodyTimeouts { whole, silence };
            let refused = receive(body, &receptions, timeouts).await.err().unwrap();
            assert_eq!(refused.kind, FailureKind::InvalidRequest);
            assert!(refused.message.contains(part), "{}", refused.message);
            assert_eq!(folder.count(), 0, "{part}");
        }
    }

    #[tokio::test]
    async fn client_that_disconnects_leaves_no_file() {
        let folder = Folder::new("gone");
        let receptions = FileReceptions::new(&folder.0);
        let body = TestBody { left: 3, end: TestEnd::Silent };
        let mut receiving = Box::pin(receive(body, &receptions, FileBodyTimeouts::default()));
        while folder.count() == 0 {
            tokio::select! {
                biased;
                _ = &mut receiving => panic!("the body has no end"),
                () = tokio::task::yield_now() => {}
            }
        }
        drop(receiving);
        assert_eq!(folder.count(), 0);
    }

    /// A body whose length is declared and too large.
    struct DeclaredBody;

    impl Body for DeclaredBody {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            panic!("the body is refused before its first byte")
        }

        fn size_hint(&self) -> SizeHint {
            SizeHint::with_exact((1 << 40) + 1)
        }
    }

    #[tokio::test]
    async fn declared_length_refuses_before_first_byte() {
        let folder = Folder::new("declared");
        let receptions = FileReceptions::new(&folder.0);
        let refused = receive(DeclaredBody, &receptions, FileBodyTimeouts::default()).await;
        assert_eq!(refused.err().unwrap().kind, FailureKind::TooLarge);
        assert_eq!(folder.count(), 0);
    }
}
