//! Cut connections to the providers of the cloud methods.

use super::every_cut_at;
use crate::cloud::{Azure, CloudLife, DUE, Google, Provider};
use crate::injected::FaultObserved;
use crate::stage::{LONG_STRIDE, SOON};
use bulkhead_tests::Internet;
use bulkhead_tests::cutting_relay::CuttingRelay;
use bulkhead_tests::paths::Folder;
use bulkhead_tests::wait::until_ok;

/// Starts a life whose server reaches the proxy, and so the provider, through a relay.
fn begin<P: Provider>() -> (CuttingRelay, CloudLife<P>) {
    let internet = Internet::start();
    let relay = CuttingRelay::to(internet.address.port());
    let block = format!("http_proxy = \"http://127.0.0.1:{}\"", relay.port);
    let online = internet.server_with(Folder::new("cuts"), &block, &[]);
    (relay, CloudLife::configured(internet, online))
}

/// Rotates the mount's credential, and then writes the configuration with its first credential. The
/// life ends early if a cut fails the first half of the rotation.
fn rotate_and_overwrite<P: Provider>(life: &mut CloudLife<P>) -> Result<(), FaultObserved> {
    life.rotate()?;
    life.online.server.kill();
    life.open(DUE, &[])?;
    life.finish()?;
    life.overwrite();
    Ok(())
}

/// Cuts message `number` of a life. Returns false if the life has fewer messages.
fn cut<P: Provider>(number: u32) -> bool {
    let (relay, mut life) = begin::<P>();
    relay.cut_at(number);
    let lived = rotate_and_overwrite(&mut life);
    let has_cut = relay.pass_all();
    assert!(lived.is_ok() || has_cut, "{}", life.log_text());
    until_ok("a login succeeds", SOON, || match life.login() {
        answer if answer.status == 200 => Ok(()),
        refused => Err(refused),
    });
    assert!(life.online.server.stop(), "{}", life.log_text());
    life.check();
    has_cut
}

#[test]
fn a_cut_rotation_leaves_one_azure_secret() {
    every_cut_at(LONG_STRIDE, "a rotation and a write of the config with azure", cut::<Azure>);
}

#[test]
fn a_cut_rotation_leaves_one_google_key() {
    every_cut_at(LONG_STRIDE, "a rotation and a write of the config with gcp", cut::<Google>);
}
