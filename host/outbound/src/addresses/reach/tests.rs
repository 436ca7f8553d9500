//! Tests of addresses in every spelling against the grants of a mount.

use super::*;

const HOSTILE: [&str; 17] = [
    "169.254.169.254",
    "::ffff:169.254.169.254",
    "::169.254.169.254",
    "::ffff:0:169.254.169.254",
    "64:ff9b::169.254.169.254",
    "64:ff9b:1::a9fe:a9fe",
    "64:ff9b:1:a9fe:a9:fe00::",
    "2002:a9fe:a9fe::1",
    "fd00:ec2::254",
    "fe80::1",
    "168.63.129.16",
    "100.100.100.200",
    "192.0.0.192",
    "0.0.0.0",
    "224.0.0.1",
    "255.255.255.255",
    "::",
];

const PRIVATE: [&str; 19] = [
    "10.1.2.3",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.1.1",
    "100.64.0.1",
    "127.0.0.1",
    "127.255.0.1",
    "192.0.2.1",
    "198.18.0.1",
    "203.0.113.9",
    "240.0.0.1",
    "::1",
    "fd00::1",
    "fec0::1",
    "2001::1",
    "2001:db8::1",
    "64:ff9b:1::808:808",
    "64:ff9b::10.1.2.3",
    "::ffff:127.0.0.1",
];

fn within(networks: &[&str]) -> AllowedAddresses {
    AllowedAddresses::within(networks)
}

fn everything() -> AllowedAddresses {
    AllowedAddresses { everything: true, ..within(&["0.0.0.0/0", "::/0"]) }
}

fn at(address: &str, port: u16) -> SocketAddr {
    SocketAddr::new(address.parse().unwrap(), port)
}

#[test]
fn metadata_and_link_local_addresses_are_always_refused() {
    for text in HOSTILE {
        let admitted = everything().check_address(at(text, 5432));
        assert!(matches!(admitted, Err(AddressRefusal::Forbidden(_))), "{text}: {admitted:?}");
    }
}

#[test]
fn private_and_special_addresses_need_matching_grant() {
    for text in PRIVATE {
        let refused = within(&["9.0.0.0/8"]).check_address(at(text, 5432));
        assert!(matches!(refused, Err(AddressRefusal::Ungranted(..))), "{text}: {refused:?}");
        let own = IpNet::from(text.parse::<IpAddr>().unwrap().to_canonical()).to_string();
        assert_eq!(within(&[&own]).check_address(at(text, 5432)), Ok(()), "{text}");
        assert_eq!(everything().check_address(at(text, 5432)), Ok(()), "{text}");
    }
    assert_eq!(
        within(&["10.0.0.0/8"]).check_address(at("64:ff9b::10.1.2.3", 1)),
        Ok(()),
        "an embedded IPv4 address is checked as IPv4"
    );
}

#[test]
fn public_addresses_need_no_grant_of_their_own() {
    for text in ["8.8.8.8", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "64:ff9b::8.8.8.8"] {
        assert_eq!(within(&[]).check_address(at(text, 5432)), Ok(()), "{text}");
    }
}

#[test]
fn the_server_never_dials_itself() {
    let listening =
        |own: &str| AllowedAddresses { own: Arc::new([own.parse().unwrap()]), ..everything() };
    let ourselves = Err(AddressRefusal::Forbidden("this very server"));
    for (own, to) in [
        ("127.0.0.1:8200", "127.0.0.1"),
        ("127.0.0.1:8200", "::ffff:127.0.0.1"),
        ("127.0.0.1:8200", "64:ff9b::127.0.0.1"),
        ("10.0.0.5:8200", "10.0.0.5"),
        ("0.0.0.0:8200", "127.0.0.1"),
        ("0.0.0.0:8200", "127.9.9.9"),
        ("[::]:8200", "127.0.0.1"),
        ("[::]:8200", "::1"),
    ] {
        assert_eq!(listening(own).check_address(at(to, 8200)), ourselves, "{own} {to}");
        assert_eq!(
            listening(own).check_address(at(to, 5432)),
            Ok(()),
            "another port of {to} is not this server"
        );
    }
    assert_eq!(listening("127.0.0.1:8200").check_address(at("127.0.0.2", 8200)), Ok(()));
    assert_eq!(
        listening("0.0.0.0:8200").check_address(at("192.0.2.77", 8200)),
        Ok(()),
        "no address of this machine"
    );
}

#[test]
fn local_machine_address_is_known_without_traffic() {
    assert!(is_of_this_machine(at("127.0.0.1", 9)));
    assert!(!is_of_this_machine(at("192.0.2.77", 9)));
}

#[tokio::test]
async fn resolved_host_is_canonical_with_each_address_checked() {
    for host in ["169.254.169.254", "0xa9fea9fe", "2852039166", "[fe80::1]", "169.254.43518"] {
        assert!(
            matches!(resolve(host, 5432, &everything()).await, Err(AddressRefusal::Forbidden(_))),
            "{host}"
        );
    }
    assert_eq!(resolve("fe80::1%lo", 5432, &everything()).await, Err(AddressRefusal::Unknown));
    assert!(matches!(
        resolve("localhost", 5432, &within(&[])).await,
        Err(AddressRefusal::Ungranted(..))
    ));
    assert!(resolve("localhost", 5432, &within(&["127.0.0.0/8", "::1/128"])).await.is_ok());
}
