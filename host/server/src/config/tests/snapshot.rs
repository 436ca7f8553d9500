//! `snapshot "NAME"`: valid blocks, and the error for each invalid setting.

use super::*;

#[test]
fn snapshot_block_has_schedule_path_and_retention() {
    let config = read(&format!(
        "{STORAGE}snapshot \"nightly\" {{\n  schedule = \"0 3 * * *\"\n  path = \"/backups\"\n  \
         retain = 7\n}}\nsnapshot \"often\" {{ schedule = \"every 6h\", path = \"/backups\", \
         retain = \"1\" }}\n"
    ));
    let [nightly, often] = &config.snapshots[..] else { panic!("{:?}", config.snapshots) };
    assert_eq!((nightly.name.as_str(), nightly.retain), ("nightly", 7));
    assert_eq!((nightly.directory.as_path(), often.retain), (Path::new("/backups"), 1));
    let text = config.to_string();
    for line in [
        "saves snapshot nightly to /backups (0 3 * * *), and retains 7 files\n",
        "saves snapshot often to /backups (every 6h), and retains 1 files\n",
    ] {
        assert!(text.contains(line), "{text}");
    }
    assert!(read(STORAGE).snapshots.is_empty());
}

#[test]
fn invalid_snapshot_block_is_refused_on_its_line() {
    let block = |name: &str, settings: &str| format!("snapshot {name} {{\n{settings}\n}}\n");
    let all = "schedule = \"every 6h\"\npath = \"/b\"\nretain = 7";
    let cases = [
        (block("", all), 2, &["takes a name", "snapshot \"nightly\""][..]),
        (block("\"a\" \"b\"", all), 2, &["takes a name"]),
        (block("\"a/b\"", all), 2, &["\"a/b\"", "letters, digits"]),
        (block("\"a\"", "path = \"/b\"\nretain = 7"), 2, &["needs schedule", "0 3 * * *"]),
        (block("\"a\"", "schedule = \"every 6h\"\nretain = 7"), 2, &["needs path"]),
        (block("\"a\"", "schedule = \"every 6h\"\npath = \"/b\""), 2, &["needs retain"]),
        (block("\"a\"", &all.replace("every 6h", "@daily")), 3, &["schedule", "every 6h"]),
        (block("\"a\"", &all.replace("every 6h", "every 0s")), 3, &["between 1s"]),
        (block("\"a\"", &all.replace('7', "0")), 5, &["0 is not between 1 and 10000"]),
        (block("\"a\"", &format!("{all}\ninterval = \"6h\"")), 6, &["schedule = \"every 6h\""]),
        (block("\"a\"", &format!("{all}\nfile_prefix = \"x\"")), 6, &["name of the block"]),
        (block("\"a\"", all).repeat(2), 7, &["given before", "different name"]),
    ];
    for (text, line, words) in cases {
        refuse_all(&[(&text, line, words)]);
    }
    let many: String = (0..17).map(|number| block(&format!("\"s{number}\""), all)).collect();
    assert!(refused(&many).message.contains("more than 16"));
}
