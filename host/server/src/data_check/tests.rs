//! The command line and the report of `bulkhead operator check`.

use super::*;
use std::any::Any;

fn parse_words(words: &[&str]) -> Result<DataCheckAction, String> {
    parse(words.iter().map(OsString::from))
}

#[test]
fn check_needs_path_and_takes_key_file() {
    let request = |key_file: Option<&str>, json| {
        let (data, key_file) =
            (CheckedData::Path(PathBuf::from("data")), key_file.map(PathBuf::from));
        Ok(DataCheckAction::Check(DataCheckRequest { data, key_file, json }))
    };
    let data = CheckedData::Configuration(PathBuf::from("b.hcl"));
    let of_server = DataCheckRequest { data, key_file: None, json: false };
    assert_eq!(parse_words(&["-config=b.hcl"]), Ok(DataCheckAction::Check(of_server)));
    assert_eq!(parse_words(&["data"]), request(None, false));
    assert_eq!(parse_words(&["-key-file=k", "data", "-format=json"]), request(Some("k"), true));
    assert_eq!(parse_words(&["-key-file", "-", "data"]), request(Some("-"), false));
    assert_eq!(parse_words(&["-help"]), Ok(DataCheckAction::Help));
    for (words, part) in [
        (&[][..], "no data are named"),
        (&["a", "b"], "operator check -help"),
        (&["a", "-config=b"], "operator check -help"),
        (&["a", "-key-file="], "single file"),
        (&["a", "-format=xml"], "use json or table"),
    ] {
        let why = parse_words(words).unwrap_err();
        assert!(why.contains(part), "{words:?}: {why}");
    }
}

#[test]
fn terminal_is_asked_for_keys_until_empty_line() {
    let hide = || Ok(Box::new(()) as Box<dyn Any>);
    let typed = format!("{}\n{}\n\n", "07".repeat(32), "08".repeat(32));
    let mut screen = Vec::new();
    let input = KeyInput { stdin: &mut typed.as_bytes(), screen: &mut screen, hide: Some(&hide) };
    assert_eq!(ask_keys(input).unwrap().len(), 2);
    let input = KeyInput { stdin: &mut typed.as_bytes(), screen: &mut screen, hide: None };
    assert_eq!(ask_keys(input).unwrap().len(), 2);
    let wrong = &mut b"hunter2\n".as_slice();
    let input = KeyInput { stdin: wrong, screen: &mut screen, hide: Some(&hide) };
    assert!(!ask_keys(input).unwrap_err().contains("hunter2"));
}

#[test]
fn report_names_damage_with_control_characters_escaped() {
    let damage = DataDamage { place: "core:\x1b[2J".to_owned(), fault: "does not open".to_owned() };
    let report = CheckReport {
        manifest: None,
        records: 3,
        opened: Some(2),
        damages: vec![damage],
        more_damages: 1,
    };
    let mut out = Vec::new();
    print_lines(&report, &StoredMountNames::default(), &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert!(text.contains("damaged: core:\\u{1b}[2J: does not open\n"), "{text}");
    assert!(text.contains("1 more places") && text.contains("3 records read, 2 opened, 2 places"));
    let mut out = Vec::new();
    print_json(&report, &StoredMountNames::default(), &mut out).unwrap();
    let json: Value = serde_json::from_slice(&out).unwrap();
    assert_eq!((&json["damages"], &json["opened"]), (&json!(2), &json!(2)));
}

#[tokio::test]
async fn missing_and_empty_data_are_refused() {
    let directory = std::env::temp_dir().join(format!("bulkhead-check-{}", std::process::id()));
    for (path, part) in [(&directory, "cannot open"), (&directory, "holds no data")] {
        let request =
            DataCheckRequest { data: CheckedData::Path(path.clone()), key_file: None, json: false };
        let (mut stdin, mut screen) = (&b""[..], Vec::new());
        let input = KeyInput { stdin: &mut stdin, screen: &mut screen, hide: None };
        let why = run(&request, input, &mut Vec::new()).await.unwrap_err();
        assert!(why.contains(part), "{why}");
        std::fs::create_dir_all(&directory).unwrap();
    }
    std::fs::remove_dir(&directory).unwrap();
}
