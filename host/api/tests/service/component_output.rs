//! The output of components: panics, prints and backtraces in the log, without secrets and in
//! bounded lines.

use crate::bed::{Bed, error, official};
use bulkhead_audit::AuditSettings;

async fn bed(name: &str) -> Bed {
    let directory =
        std::env::temp_dir().join(format!("bulkhead-output-{name}-{}", std::process::id()));
    Bed::with(directory, ["probe", "hostile"].map(official).to_vec(), AuditSettings::default())
        .await
        .unwrap()
}

/// Returns the lines about output.
fn output(bed: &Bed) -> Vec<String> {
    let lines = bed.log.0.lock().unwrap().clone();
    lines.into_iter().filter(|line| line.contains(" component-output ")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn panic_text_and_backtrace_reach_the_log() {
    let bed = bed("panic").await;
    let (status, answer) = bed.read("hostile/panic").await;
    assert_eq!(status, 500, "{answer}");
    let trapped = bed.line("plugin-trapped").await;
    for part in [
        r#"("mount", "hostile/"), ("plugin", "hostile"), ("version", "1.0.0"), "#,
        r#"("trap", "wasm trap: "#,
        r#"("backtrace", "0x"#,
        "::panicking::panic_fmt < 0x",
        " bulkhead_guest_hostile::traps::panics::",
        " < ",
        "on request",
    ] {
        assert!(trapped.contains(part), "{part}: {trapped}");
    }
    let output = output(&bed);
    assert!(output[0].starts_with("warn component-output "), "{output:?}");
    assert!(output[0].contains("panicked at tests/guests/hostile/src/traps.rs"), "{output:?}");
    assert!(output[1].contains(r#"("stream", "stderr"), ("line", "on request")"#), "{output:?}");
    // The bed is in dev mode.
    for part in ["panicked, or ended itself", "\nstderr: ", "on request", "\nbacktrace: 0x"] {
        assert!(error(&answer).contains(part), "{part}: {answer}");
    }
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn trap_without_text_has_backtrace_alone() {
    let bed = bed("unreachable").await;
    let (_, answer) = bed.read("hostile/unreachable").await;
    let trapped = bed.line("plugin-trapped").await;
    assert!(trapped.contains("unreachable") && trapped.contains("backtrace"), "{trapped}");
    assert!(!trapped.contains("stderr") && output(&bed).is_empty(), "{trapped}");
    assert!(!error(&answer).contains("stderr"), "{answer}");
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn printed_secrets_are_hidden_in_every_stream() {
    let bed = bed("secret").await;
    let (status, answer) = bed.read("hostile/secret-in-output").await;
    assert_eq!(status, 200, "{answer}");
    let secret = answer["data"]["secret"].as_str().unwrap().to_lowercase();
    let output = output(&bed);
    assert_eq!(output.len(), 2, "{output:?}");
    for (line, stream) in output.iter().zip(["stdout", "stderr"]) {
        let pairs =
            format!(r#"("stream", "{stream}"), ("line", "the secret is [secret], and [secret]")"#);
        assert!(line.contains(&pairs), "{line}");
    }
    let all = bed.log.0.lock().unwrap().join("\n").to_lowercase();
    let runs = secret.as_bytes().windows(8).map(|run| std::str::from_utf8(run).unwrap());
    assert_eq!(runs.filter(|run| all.contains(run)).count(), 0, "{secret} in {all}");
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn secret_in_panic_is_hidden() {
    let bed = bed("secret-panic").await;
    let (status, answer) = bed.read("hostile/secret-in-panic").await;
    assert_eq!(status, 500, "{answer}");
    assert!(error(&answer).contains("cannot log in with [secret]"), "{answer}");
    assert!(bed.line("plugin-trapped").await.contains("cannot log in with [secret]"));
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn output_flood_keeps_first_and_last_lines() {
    let bed = bed("flood").await;
    let (status, answer) = bed.read("hostile/flood-of-output").await;
    assert_eq!(status, 200, "{answer}");
    let output = output(&bed);
    let bytes: usize = output.iter().map(String::len).sum();
    assert!(output.len() <= 32 && bytes <= 48 << 10, "{} lines, {bytes} bytes", output.len());
    assert!(output.iter().all(|line| line.len() < 1_400), "{output:?}");
    assert!(output[0].contains(r#"("line", "the beginning")"#), "{}", output[0]);
    let last = output.last().unwrap();
    assert!(last.contains(r#"("line", "the end"), ("dropped-bytes", "104"#), "{last}");
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn output_cannot_forge_log_lines() {
    let bed = bed("forged").await;
    let (status, answer) = bed.read("hostile/forged-output").await;
    assert_eq!(status, 200, "{answer}");
    let output = output(&bed);
    assert_eq!(output.len(), 6, "{output:?}");
    for lines in output.chunks(3) {
        assert!(lines[0].ends_with(r#"("line", "noise")]"#), "{lines:?}");
        let forged = r#"("line", "level=error event=forged mount=probe/")]"#;
        assert!(lines[1].ends_with(forged) && lines[1].contains("hostile/"), "{lines:?}");
        assert!(
            !lines[2].contains(['\u{1b}', '\u{7}', '\0']) && lines[2].contains("end"),
            "{lines:?}"
        );
    }
    bed.end().await;
}
