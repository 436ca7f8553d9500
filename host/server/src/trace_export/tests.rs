//! The export against collectors that answer, refuse, redirect, hang and talk nonsense.

use super::*;
use crate::config::{access_to, telemetry_of};
use crate::log::testing::RecordingLog;
use bulkhead_trace::SpanKind;
use std::os::unix::fs::PermissionsExt as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

/// Serves each connection with the next answer; an empty answer hangs.
async fn collector(answers: &'static [&'static str]) -> (CollectorAccess, JoinHandle<usize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let access = access_to(&format!("http://{}", listener.local_addr().unwrap()));
    let served = tokio::spawn(async move {
        let (mut requests, mut open) = (0, Vec::new());
        for answer in answers {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut buffer = vec![0; 64 << 10];
            assert!(stream.read(&mut buffer).await.unwrap() > 0);
            requests += 1;
            stream.write_all(answer.as_bytes()).await.unwrap();
            open.push(stream);
        }
        requests
    });
    (access, served)
}

struct Exported {
    client: CollectorClient,
    lines: Arc<RecordingLog>,
}

impl Exported {
    fn to(access: CollectorAccess) -> Self {
        let lines = Arc::new(RecordingLog::default());
        let log: Arc<dyn Log> = Arc::clone(&lines) as Arc<dyn Log>;
        let (_, access) = watch::channel(access);
        let client = CollectorClient::new(access, Tracer::new(1.0, || 1), log);
        Self { client, lines }
    }

    fn add_span(&self) {
        drop(self.client.tracer.begin_due_work("timer"));
    }

    fn figures(&self) -> (u64, u64) {
        let figures = self.client.tracer.figures();
        (figures.exported, figures.dropped)
    }
}

/// Begins an export of all traces.
fn exporter(access: CollectorAccess, log: &Arc<dyn Log>) -> TraceExporter {
    let telemetry = telemetry_of("otlp_endpoint = \"http://127.0.0.1:1\"\nsample_ratio = 1");
    TraceExporter::with_access(access, (telemetry, OutboundNetwork::default()), log)
}

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
const BUSY: &str = "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n";

#[tokio::test]
async fn batch_is_kept_until_collector_accepts_it() {
    let (access, served) = collector(&[BUSY, BUSY, OK]).await;
    let mut exported = Exported::to(access);
    exported.add_span();
    assert!(!exported.client.send_next().await);
    assert_eq!((exported.client.pause, exported.figures()), (Some(FIRST_PAUSE), (0, 0)));
    assert!(!exported.client.send_next().await);
    assert_eq!(exported.client.pause, Some(FIRST_PAUSE * 2));
    assert!(exported.client.send_next().await);
    assert_eq!((exported.client.pause, exported.figures()), (None, (1, 0)));
    assert_eq!(exported.lines.events(), ["trace-export-failing", "trace-export-restored"]);
    assert_eq!(served.await.unwrap(), 3);
}

#[tokio::test]
async fn refused_batches_are_dropped_and_counted() {
    let (access, served) = collector(&[
        "HTTP/1.1 307 Elsewhere\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\n<html>no</html>",
        "HTTP/1.1 400 Bad\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n\n\u{2}\u{8}\u{1}",
    ])
    .await;
    let mut exported = Exported::to(access);
    for dropped in 1..=3 {
        exported.add_span();
        assert!(!exported.client.send_next().await);
        assert_eq!(exported.figures(), (0, dropped));
    }
    exported.add_span();
    exported.add_span();
    assert!(exported.client.send_next().await, "one of two spans is rejected");
    assert_eq!(exported.figures(), (1, 4));
    assert_eq!(exported.lines.events(), ["trace-export-failing", "trace-export-restored"]);
    served.await.unwrap();
}

#[tokio::test]
async fn closed_port_and_nonsense_keep_batch() {
    let (access, served) = collector(&["SSH-2.0-nonsense\r\n"]).await;
    let mut exported = Exported::to(access);
    exported.add_span();
    assert!(!exported.client.send_next().await);
    served.await.unwrap();
    assert!(!exported.client.send_next().await, "the port is closed");
    assert_eq!((exported.figures(), exported.client.unsent.len()), ((0, 0), 1));
    assert_eq!(exported.lines.events(), ["trace-export-failing"]);
}

#[tokio::test]
async fn stop_with_hanging_collector_ends_at_deadline() {
    let (access, served) = collector(&[""]).await;
    let log: Arc<dyn Log> = Arc::new(RecordingLog::default());
    let exporter = exporter(access, &log);
    let tracer = Arc::clone(exporter.tracer());
    drop(tracer.begin_due_work("timer"));
    exporter.finish(Instant::now() + Duration::from_millis(300)).await;
    assert_eq!(tracer.figures().exported, 0);
    served.abort();
}

#[tokio::test]
async fn stop_sends_the_waiting_spans() {
    let (access, served) = collector(&[OK]).await;
    let log: Arc<dyn Log> = Arc::new(RecordingLog::default());
    let exporter = exporter(access, &log);
    let tracer = Arc::clone(exporter.tracer());
    let span = tracer.begin_due_work("timer").unwrap();
    drop(span.context().child("component", SpanKind::Internal));
    drop(span);
    exporter.finish(Instant::now() + Duration::from_secs(60)).await;
    assert_eq!((tracer.figures().exported, served.await.unwrap()), (2, 1));
}

#[tokio::test]
async fn headers_are_read_again_and_unreadable_ones_kept() {
    let (file, name) = (std::env::temp_dir(), std::process::id());
    let file = file.join(format!("bulkhead-collector-headers-{name}"));
    let write = |text: &str| {
        std::fs::write(&file, text).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    };
    write("authorization: Bearer one\n");
    let telemetry = telemetry_of(&format!(
        "otlp_endpoint = \"https://127.0.0.1:1\"\notlp_headers_file = \"{}\"",
        file.display()
    ));
    let lines = Arc::new(RecordingLog::default());
    let log: Arc<dyn Log> = Arc::clone(&lines) as Arc<dyn Log>;
    let exporter = TraceExporter::start(&telemetry, &OutboundNetwork::default(), &log);
    let settings = exporter.unwrap().unwrap().settings();
    let token = || settings.access.borrow().headers[0].1.clone();
    write("authorization: Bearer two\n");
    settings.renew_access(&*log);
    assert_eq!((token().as_str(), lines.events().len()), ("Bearer two", 0));
    for text in ["no header Bearer three", "authorization: Bearer\u{1}three"] {
        write(text);
        settings.renew_access(&*log);
        assert_eq!(token(), "Bearer two");
    }
    assert_eq!(lines.events(), ["collector-files-refused"; 2]);
    std::fs::remove_file(&file).unwrap();
}
