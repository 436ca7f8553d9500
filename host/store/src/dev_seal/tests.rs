//! The files of the dev seal.

use super::*;
use crate::testing::ScratchDirectory;
use crate::{FirstKeys, SealConfig};

fn mode_of(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn refusal(directory: &DataDirectory) -> String {
    match dev_key(directory) {
        Err(StoreFault::Refused(text)) => text,
        Err(other) => panic!("expected a refusal, got {other}"),
        Ok(_) => panic!("expected a refusal, got success"),
    }
}

#[tokio::test]
async fn dev_key_is_made_once_for_owner_only() {
    let scratch = ScratchDirectory::new();
    let directory = scratch.hold().await;
    let first = dev_key(&directory).unwrap();
    assert_eq!(dev_key(&directory).unwrap().bytes(), first.bytes());
    assert_eq!(mode_of(&scratch.path().join(KEY_FILE)), 0o600);
}

#[tokio::test]
async fn key_readable_by_others_is_refused_with_mode() {
    let scratch = ScratchDirectory::new();
    let directory = scratch.hold().await;
    dev_key(&directory).unwrap();
    let path = scratch.path().join(KEY_FILE);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    assert!(refusal(&directory).contains("644"));
}

#[tokio::test]
async fn key_of_wrong_length_is_refused_and_hidden() {
    let scratch = ScratchDirectory::new();
    let directory = scratch.hold().await;
    dev_key(&directory).unwrap();
    fs::write(scratch.path().join(KEY_FILE), b"hunter2").unwrap();
    let text = refusal(&directory);
    assert!(text.contains("7 bytes"));
    assert!(!text.contains("hunter2"));
}

#[tokio::test]
async fn no_new_key_is_made_over_unopenable_data() {
    let scratch = ScratchDirectory::new();
    let directory = scratch.hold().await;
    let elsewhere = SealKey::generate().unwrap();
    directory
        .initialise(FirstKeys::of_holders(SealConfig::SINGLE, &elsewhere), |_| Ok(Vec::new()))
        .await
        .unwrap();
    assert!(refusal(&directory).contains("missing"));
    assert!(!scratch.path().join(KEY_FILE).exists());
}

#[tokio::test]
async fn dev_directory_opens_manually_with_its_share() {
    let scratch = ScratchDirectory::new();
    let directory = scratch.hold().await;
    let share = dev_key(&directory).unwrap().share();
    directory
        .initialise(
            FirstKeys::of_holders(SealConfig::SINGLE, &dev_key(&directory).unwrap()),
            |_| Ok(Vec::new()),
        )
        .await
        .unwrap();
    let mut collector = crate::ShareCollector::new(directory.seal_config().await.unwrap().unwrap());
    let Ok(crate::ShareProgress::Enough(key)) = collector.add(share) else {
        panic!("one share does not unseal")
    };
    directory.open(key).await.unwrap().close().await;
}
