//! The command line and the report of `bulkhead operator diagnose`.

use super::*;

fn parse_words(words: &[&str]) -> Result<DiagnoseAction, String> {
    parse(words.iter().map(OsString::from))
}

#[test]
fn diagnose_needs_file_and_prints_table_or_json() {
    let request =
        |json| Ok(DiagnoseAction::Diagnose(DiagnoseRequest { file: PathBuf::from("f.hcl"), json }));
    assert_eq!(parse_words(&["-config=f.hcl"]), request(false));
    assert_eq!(parse_words(&["--config", "f.hcl", "-format=json"]), request(true));
    assert_eq!(parse_words(&["-help"]), Ok(DiagnoseAction::Help));
    for (words, part) in [
        (&[][..], "which file?"),
        (&["-config="], "which file?"),
        (&["-config=a", "-config=b"], "twice"),
        (&["-config=a", "-format=xml"], "use json or table"),
        (&["f.hcl"], "operator diagnose -help"),
    ] {
        let why = parse_words(words).unwrap_err();
        assert!(why.contains(part), "{words:?}: {why}");
    }
}

#[test]
fn the_worst_result_decides_the_exit_code() {
    let mut diagnosis = Diagnosis::default();
    for (status, code) in [(CheckStatus::Ok, 0), (CheckStatus::Warn, 2), (CheckStatus::Fail, 1)] {
        diagnosis.add("check", status, "first line\nsecond line");
        assert_eq!(diagnosis.status().exit_code(), code);
    }
    diagnosis.add("last", CheckStatus::Ok, "well");
    let mut out = Vec::new();
    diagnosis.print_lines(&mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert!(text.contains("[ warn ] check: first line\n         second line\n"), "{text}");
    assert!(text.contains("[ ok ]   last: well\n"), "{text}");
    assert!(text.ends_with("4 checks: 1 failed, 1 with a warning\n"), "{text}");
}

#[test]
fn pipe_as_log_fails_check_as_start() {
    let name = format!("bulkhead-check-log-{}", std::process::id());
    let pipe = std::env::temp_dir().join(name);
    drop(std::fs::remove_file(&pipe));
    let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU);
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, kind, mode, 0).unwrap();
    let check = |file: &Path| {
        let mut diagnosis = Diagnosis::default();
        storage::check_log_file(file, &mut diagnosis);
        diagnosis.failures()
    };
    let failures = check(&pipe);
    assert!(failures[0].contains("neither a regular file nor a terminal"), "{failures:?}");
    assert!(failures[0].contains("name a regular file"), "{failures:?}");
    assert!(check(Path::new("/dev/null")).is_empty());
    std::fs::remove_file(&pipe).unwrap();
}
