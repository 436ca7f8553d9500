//! The check of a configuration file against starts that would be refused.

use super::*;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

/// A folder with a configuration file, in which `FOLDER` stands for the folder.
struct CheckedFolder(PathBuf);

impl CheckedFolder {
    fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("bulkhead-check-{name}-{}", std::process::id()));
        _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    async fn check(&self, text: &str) -> Result<String, String> {
        let file = self.0.join("bulkhead.hcl");
        fs::write(&file, text.replace("FOLDER", &self.0.display().to_string())).unwrap();
        let mut out = Vec::new();
        run(&file, &[], &mut out).await.map(|()| String::from_utf8(out).unwrap())
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl Drop for CheckedFolder {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.0);
    }
}

const GOOD: &str = "listener \"tcp\" { address = \"127.0.0.1:0\" }\n\
     storage \"sqlite\" { path = \"FOLDER/data\" }\n\
     audit \"file\" \"main\" { path = \"FOLDER/audit.log\" }\n";

#[tokio::test]
async fn check_of_good_file_creates_nothing() {
    let folder = CheckedFolder::new("good");
    let output = folder.check(GOOD).await.unwrap();
    assert!(output.contains("is valid") && output.contains("listens on 127.0.0.1:0"), "{output}");
    assert_eq!(folder.names(), ["bulkhead.hcl"]);
}

#[tokio::test]
async fn check_names_several_refusals_at_once() {
    let folder = CheckedFolder::new("several");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    fs::create_dir(folder.0.join("data")).unwrap();
    fs::write(folder.0.join("data/bulkhead.db"), "a text of another program").unwrap();
    let text = GOOD.replace("127.0.0.1:0", &address).replace("audit.log", "none/audit.log");
    let refusal = folder.check(&text).await.unwrap_err();
    assert!(refusal.contains("for 3 reasons"), "{refusal}");
    for part in ["create ", &address, "bulkhead.db"] {
        assert!(refusal.contains(part), "{part}: {refusal}");
    }
    assert_eq!(folder.names(), ["bulkhead.hcl", "data"]);
    assert_eq!(fs::read_dir(folder.0.join("data")).unwrap().count(), 1, "no file is made");
}

#[tokio::test]
async fn check_names_certificate_and_taken_port_together() {
    let folder = CheckedFolder::new("key");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let tls = format!(
        "listener \"tcp\" {{\n address = \"{address}\"\n tls_cert_file = \"FOLDER/none.pem\"\n \
         tls_key_file = \"FOLDER/none.key\"\n}}\nstorage \"sqlite\" {{ path = \"FOLDER/data\" }}\n"
    );
    let refusal = folder.check(&tls).await.unwrap_err();
    assert!(refusal.contains("none.pem cannot be read"), "{refusal}");
    assert!(refusal.contains("cannot listen on"), "{refusal}");
}

#[tokio::test]
async fn check_refuses_data_held_by_another_process() {
    let folder = CheckedFolder::new("held");
    fs::create_dir(folder.0.join("data")).unwrap();
    let lock = fs::File::create(folder.0.join("data/lock")).unwrap();
    lock.lock().unwrap();
    let served = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = served.local_addr().unwrap().to_string();
    let output = folder.check(&GOOD.replace("127.0.0.1:0", &address)).await.unwrap();
    let note = format!("note: {address} belongs to the running server");
    assert!(output.contains(&note), "{output}");
    // The system gives out no port below 1024, so that no other test listens here.
    let refusal = folder.check(&GOOD.replace("127.0.0.1:0", "127.0.0.1:1")).await.unwrap_err();
    assert!(refusal.contains("is in use by a process"), "{refusal}");
}

#[tokio::test]
async fn check_refuses_audit_file_that_is_no_file() {
    let folder = CheckedFolder::new("audit");
    fs::create_dir(folder.0.join("audit.log")).unwrap();
    let refusal = folder.check(GOOD).await.unwrap_err();
    assert!(refusal.contains("audit.log is a directory"), "{refusal}");
    fs::remove_dir(folder.0.join("audit.log")).unwrap();
    symlink("/dev/null", folder.0.join("audit.log")).unwrap();
    folder.check(GOOD).await.unwrap();
}
