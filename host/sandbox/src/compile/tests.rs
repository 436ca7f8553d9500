//! Tests of the compiler of uploaded components.

use super::*;
use std::fs;
use std::future::pending;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::Command;

#[test]
fn compile_refusal_reaches_author_without_code() {
    let mut answered = Vec::new();
    run_worker(31, &b"no component"[..], &mut answered).unwrap();
    let (limit, answered) = split_limit(&answered);
    assert_eq!(limit.unwrap().processor_seconds, 31);
    let failure = parse_answer(answered).unwrap().err().unwrap();
    assert_eq!(failure.kind, FailureKind::InvalidRequest);
    assert!(failure.message.contains("not WebAssembly"), "{failure:?}");
}

#[test]
fn an_answer_that_is_not_whole_is_none() {
    let line = b"{\"compiled\":{\"world\":\"secrets-engine\",\"bytes\":4}}\n";
    assert!(parse_answer(&[&line[..], b"code"].concat()).unwrap().is_ok());
    for cut in [
        &b""[..],
        b"{}",
        b"{}\n",
        &line[..20],
        &[&line[..], b"cod"].concat(),
        &[&line[..], b"codes"].concat(),
    ] {
        assert!(parse_answer(cut).is_none(), "{}", String::from_utf8_lossy(cut));
    }
}

#[tokio::test]
async fn compiler_without_processor_time_blames_no_component() {
    let failed = read_within(Duration::ZERO, 4, pending()).await.err().unwrap();
    assert_eq!(failed.kind, FailureKind::Unavailable, "{failed:?}");
    assert!(failed.message.contains("try again"), "{failed:?}");
    assert!(failed.retry_after.is_some());
}

#[tokio::test]
async fn program_without_answer_is_no_compiler() {
    let failed = Compiler::new("/bin/false".into()).compile(Arc::default()).await.err().unwrap();
    assert_eq!(failed.kind, FailureKind::Internal, "{failed:?}");
    assert!(failed.message.contains("without an answer"), "{failed:?}");
    let failed =
        Compiler::new("/nonexistent/bulkhead".into()).compile(Arc::default()).await.err().unwrap();
    assert_eq!(failed.kind, FailureKind::Internal);
}

/// A program that runs a shell script in the place of the compiler, in a separate directory.
struct Script(PathBuf);

impl Script {
    fn new(name: &str, lines: &str) -> Self {
        let directory =
            std::env::temp_dir().join(format!("compiler-{name}-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let lines = lines.replace("DIRECTORY", directory.to_str().unwrap());
        let program = directory.join("program");
        fs::write(&program, format!("#!/bin/sh\n{lines}\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
        Self(directory)
    }

    fn compiler(&self) -> Compiler {
        Compiler::new(self.0.join("program"))
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The child's first line, for shell scripts in the place of the compiler.
const LIMIT_LINE: &str = r#"echo '{"processor-seconds":47}'"#;

async fn failure_of(name: &str, lines: &str) -> Failure {
    let script = Script::new(name, &format!("{LIMIT_LINE}; {lines}"));
    script.compiler().compile(Arc::default()).await.err().unwrap()
}

#[tokio::test]
async fn compilation_over_processor_time_is_refused_with_limit() {
    let failed = failure_of("loops", "ulimit -S -t 1; while :; do :; done").await;
    assert_eq!(failed.kind, FailureKind::InvalidRequest);
    assert!(failed.message.contains("47 s of processor time"), "{failed:?}");
    assert!(failed.message.contains("make the component smaller"), "{failed:?}");
}

#[tokio::test]
async fn only_component_limit_asks_for_smaller_component() {
    let killed = failure_of("killed", "kill -9 $$").await;
    assert_eq!((killed.kind, killed.retry_after.is_some()), (FailureKind::Unavailable, true));
    let crashed = failure_of("crashed", "kill -SEGV $$").await;
    assert_eq!(crashed.kind, FailureKind::InvalidRequest);
    for failed in [killed, crashed] {
        assert!(!failed.message.contains("smaller"), "{failed:?}");
    }
    let aborted = failure_of("aborted", "kill -ABRT $$").await;
    assert_eq!(aborted.kind, FailureKind::InvalidRequest);
    assert!(aborted.message.contains("limit of memory"), "{aborted:?}");
}

#[tokio::test]
async fn small_component_does_not_wait_for_large() {
    let answer = r#"{"compiled":{"world":"secrets-engine","bytes":4}}"#;
    let lines = format!(
        "{LIMIT_LINE}; cat > /dev/null; \
         if [ \"$2\" -gt {SMALL_COMPONENT_BYTES} ]; then read go < DIRECTORY/go; fi; \
         printf '{answer}\ncode'"
    );
    let script = Script::new("lanes", &lines);
    let status = Command::new("mkfifo").arg(script.file("go")).status().unwrap();
    assert!(status.success());
    let compiler = Arc::new(script.compiler());
    let large = Arc::new(vec![0; SMALL_COMPONENT_BYTES + 1]);
    let wait = Duration::from_millis(50);
    let unfinished = compiler.compile_within(wait, Arc::clone(&large)).await.err().unwrap();
    assert!(unfinished.message.contains("the compilation goes on"), "{unfinished:?}");
    assert!(compiler.compile(Arc::new(b"small".to_vec())).await.is_ok());
    let go = script.file("go");
    let released = spawn_blocking(move || fs::write(go, "go\n"));
    assert!(compiler.compile(large).await.is_ok());
    released.await.unwrap().unwrap();
}

#[tokio::test]
async fn repeated_upload_gets_result_of_continued_compilation() {
    let answer = r#"{"compiled":{"world":"secrets-engine","bytes":4}}"#;
    let lines = format!(
        "echo x >> DIRECTORY/starts; {LIMIT_LINE}; cat > /dev/null; read go < DIRECTORY/go; \
         printf '{answer}\\ncode'"
    );
    let script = Script::new("waits", &lines);
    let status = Command::new("mkfifo").arg(script.file("go")).status().unwrap();
    assert!(status.success());
    let (compiler, wasm) = (script.compiler(), Arc::new(b"wasm".to_vec()));
    let wait = Duration::from_millis(50);
    let late = compiler.compile_within(wait, Arc::clone(&wasm)).await.err().unwrap();
    assert_eq!(
        (late.kind, late.retry_after.is_some()),
        (FailureKind::Unavailable, true),
        "{late:?}"
    );
    let joined = compiler.compile_within(wait, Arc::clone(&wasm)).await.err().unwrap();
    assert!(joined.message.contains("joined the compilation of the same"), "{joined:?}");
    let again = compiler.compile(Arc::clone(&wasm));
    let go = script.file("go");
    let released = spawn_blocking(move || fs::write(go, "go\n"));
    let code = again.await.ok().unwrap().code;
    assert_eq!((code.bytes(), code.read(0..4).unwrap()), (4, b"code".to_vec()));
    let inode = fs::metadata(code.path()).unwrap().ino();
    drop(code);
    let closed = async {
        while is_open(inode) {
            tokio::task::yield_now().await;
        }
    };
    let in_time = tokio::time::timeout(Duration::from_secs(10), closed).await;
    in_time.expect("no code is kept once its outcome was fetched");
    released.await.unwrap().unwrap();
    let starts = fs::read_to_string(script.file("starts")).unwrap();
    assert_eq!(starts, "x\n", "it was compiled once");
    assert!(sync::lock(&compiler.small.last).is_none(), "the outcome is fetched once");
}

/// Reports whether this process has the file with the number `inode` open.
fn is_open(inode: u64) -> bool {
    let open = fs::read_dir("/proc/self/fd").unwrap();
    open.filter_map(|entry| fs::metadata(entry.ok()?.path()).ok()).any(|file| file.ino() == inode)
}
