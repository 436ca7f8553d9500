//! Tests of shares, with arithmetic independent of the tested code.

use super::*;

fn config(shares: u8, threshold: u8) -> SealConfig {
    SealConfig { shares, threshold }
}

fn copy(share: &KeyShare) -> KeyShare {
    KeyShare(share.0.clone())
}

/// Returns the key from the shares at these positions.
fn gathered(
    shares: &[KeyShare],
    config: SealConfig,
    positions: impl IntoIterator<Item = usize>,
) -> Option<SealKey> {
    let mut collector = ShareCollector::new(config);
    for position in positions {
        match collector.add(copy(&shares[position])).unwrap() {
            ShareProgress::Enough(key) => return Some(key),
            ShareProgress::More(_) => {}
        }
    }
    None
}

/// Multiplies in GF(2^8) modulo x^8 + x^4 + x^3 + x + 1, bit by bit, independently of the tested
/// code.
fn times(mut one: u8, mut other: u8) -> u8 {
    let mut product = 0;
    while other != 0 {
        if other & 1 == 1 {
            product ^= one;
        }
        let overflows = one & 0x80 != 0;
        one <<= 1;
        if overflows {
            one ^= 0x1b;
        }
        other >>= 1;
    }
    product
}

fn inverse(of: u8) -> u8 {
    (1..=255).find(|candidate| times(of, *candidate) == 1).unwrap()
}

/// Returns the value at 0 of the polynomial through these points, by Lagrange's formula.
fn at_zero(points: &[(u8, u8)]) -> u8 {
    let term = |&(x, y): &(u8, u8)| {
        let others = points.iter().filter(|(other, _)| *other != x);
        others.fold(y, |term, (other, _)| times(term, times(*other, inverse(other ^ x))))
    };
    points.iter().map(term).fold(0, |sum, term| sum ^ term)
}

fn key_of(shares: &[&KeyShare]) -> Vec<u8> {
    let point = |share: &&KeyShare, position: usize| (share.0[KEY_BYTES], share.0[position]);
    (0..KEY_BYTES)
        .map(|position| {
            at_zero(&shares.iter().map(|share| point(share, position)).collect::<Vec<_>>())
        })
        .collect()
}

#[test]
fn test_field_matches_standard_examples() {
    // FIPS 197, section 4.2: {57} x {83} = {c1}, {57} x {13} = {fe}.
    assert_eq!((times(0x57, 0x83), times(0x57, 0x13)), (0xc1, 0xfe));
}

#[test]
fn three_of_five_shares_open_and_two_fail() {
    let key = SealKey::generate().unwrap();
    let shares = split(&key, config(5, 3)).unwrap();
    assert_eq!(shares.iter().map(|share| share.0[KEY_BYTES]).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
    for one in 0..5 {
        for two in (0..5).filter(|two| *two != one) {
            assert_ne!(key_of(&[&shares[one], &shares[two]]), key.bytes());
            assert!(gathered(&shares, config(5, 3), [one, two]).is_none());
            for three in (0..5).filter(|three| *three != one && *three != two) {
                assert_eq!(key_of(&[&shares[one], &shares[two], &shares[three]]), key.bytes());
                let opened = gathered(&shares, config(5, 3), [one, two, three]).unwrap();
                assert_eq!(opened.bytes(), key.bytes());
            }
        }
    }
}

#[test]
fn shares_that_were_computed_by_hand_open() {
    // f(x) = 2a + 03 x + 05 x^2 for every byte.
    let value = |x: u8| 0x2a ^ times(0x03, x) ^ times(0x05, times(x, x));
    assert_eq!([value(1), value(2), value(5)], [0x2c, 0x38, 0x70]);
    let text = |x: u8| format!("{}{x:02x}", format!("{:02x}", value(x)).repeat(KEY_BYTES));
    let shares: Vec<KeyShare> = [5, 1, 2].map(|x| KeyShare::parse(&text(x)).unwrap()).into();
    assert_eq!(gathered(&shares, config(5, 3), 0..3).unwrap().bytes(), &[0x2a; KEY_BYTES]);
}

#[test]
fn single_share_values_are_uniformly_distributed() {
    let key = SealKey::from_bytes([0; KEY_BYTES]);
    let mut counts = [[0_u32; 256]; 3];
    for _ in 0..1_000 {
        let shares = split(&key, config(3, 3)).unwrap();
        for (share, counts) in shares.iter().zip(&mut counts) {
            for value in &share.0[..KEY_BYTES] {
                counts[usize::from(*value)] += 1;
            }
        }
    }
    // 32,000 values per share: 125 each on average with a standard deviation of 11. A deviation of
    // 8 times that amount never happens.
    for counts in counts {
        assert!(counts.iter().all(|count| (35..=215).contains(count)), "{counts:?}");
    }
}

#[test]
fn leading_coefficient_is_zero_as_often_as_others() {
    let key = SealKey::from_bytes([9; KEY_BYTES]);
    // For two shares the polynomial is 9 + c x, and share 1 is 9 + c.
    let splits = (0..1_000).map(|_| split(&key, config(2, 2)).unwrap());
    let zero = splits
        .flat_map(|shares| shares[0].0[..KEY_BYTES].to_vec())
        .filter(|value| *value == 9)
        .count();
    assert!((35..=215).contains(&zero), "{zero} of 32,000");
}

#[test]
fn threshold_of_255_needs_all_255_shares() {
    let (key, all) = (SealKey::generate().unwrap(), config(255, 255));
    let shares = split(&key, all).unwrap();
    assert!(gathered(&shares, all, 0..254).is_none());
    assert_eq!(gathered(&shares, all, (0..255).rev()).unwrap().bytes(), key.bytes());
    let two = split(&key, config(255, 2)).unwrap();
    assert_eq!(gathered(&two, config(255, 2), [254, 0]).unwrap().bytes(), key.bytes());
}

#[test]
fn a_single_share_is_the_key_itself() {
    let key = SealKey::from_bytes([0xab; KEY_BYTES]);
    let shares = split(&key, SealConfig::SINGLE).unwrap();
    assert_eq!(*shares[0].hex(), "ab".repeat(KEY_BYTES));
    assert_eq!(gathered(&shares, SealConfig::SINGLE, [0]).unwrap().bytes(), key.bytes());
}

#[test]
fn share_is_parsed_from_both_text_forms() {
    for config in [SealConfig::SINGLE, config(2, 2)] {
        let share = split(&SealKey::generate().unwrap(), config).unwrap().remove(0);
        for text in [share.hex(), share.base64(), Zeroizing::new(share.hex().to_uppercase())] {
            assert_eq!(KeyShare::parse(&text).unwrap().0, share.0);
        }
    }
}

#[test]
fn invalid_share_text_is_refused_and_not_repeated() {
    let good = "ab".repeat(KEY_BYTES);
    let bad_digit = format!("{}zz", &good[2..]);
    let wide = "é".repeat(KEY_BYTES);
    for text in
        ["", "hunter2", &good[2..], &good[1..], &bad_digit, &wide, &"!".repeat(44), &"A".repeat(43)]
    {
        let said = KeyShare::parse(text).unwrap_err();
        assert!(text.is_empty() || !said.contains(text), "{said}");
        assert!(said.contains("base64"), "{said}");
    }
    // Bits that a decoder would drop: a share must not have several texts.
    assert!(KeyShare::parse(&format!("{}B=", "A".repeat(42))).is_err());
}

#[test]
fn nothing_of_a_share_is_shown_by_debug() {
    assert_eq!(format!("{:?}", SealKey::from_bytes([0xab; KEY_BYTES]).share()), "Share");
}

#[test]
fn repeated_share_makes_no_progress_without_error() {
    let shares = split(&SealKey::generate().unwrap(), config(3, 2)).unwrap();
    let mut collector = ShareCollector::new(config(3, 2));
    for _ in 0..3 {
        assert!(matches!(collector.add(copy(&shares[1])), Ok(ShareProgress::More(1))));
    }
    assert!(matches!(collector.add(copy(&shares[0])), Ok(ShareProgress::Enough(_))));
    assert_eq!(collector.count(), 0, "the collector begins again");
}

#[test]
fn impossible_share_is_refused_and_others_stay() {
    let shares = split(&SealKey::generate().unwrap(), config(3, 2)).unwrap();
    let mut collector = ShareCollector::new(config(3, 2));
    collector.add(copy(&shares[0])).map(drop).unwrap();
    let numbered =
        |number: u8| KeyShare::parse(&format!("{}{number:02x}", "ab".repeat(KEY_BYTES))).unwrap();
    for (share, said) in [
        (numbered(1), "other content"),
        (numbered(0), "number 0"),
        (numbered(4), "shares 1 to 3"),
        (SealKey::generate().unwrap().share(), "has 32 bytes"),
    ] {
        let text = collector.add(share).map(drop).unwrap_err();
        assert!(text.contains(said), "{text}");
        assert_eq!(collector.count(), 1);
    }
    let long = ShareCollector::new(SealConfig::SINGLE).add(numbered(1)).map(drop).unwrap_err();
    assert!(long.contains("has 33 bytes"), "{long}");
}

#[test]
fn shares_of_two_keys_give_neither_key() {
    let keys = [SealKey::generate().unwrap(), SealKey::generate().unwrap()];
    let mut shares = split(&keys[0], config(2, 2)).unwrap();
    shares[1] = split(&keys[1], config(2, 2)).unwrap().remove(1);
    let mixed = gathered(&shares, config(2, 2), 0..2).unwrap();
    assert!(keys.iter().all(|key| key.bytes() != mixed.bytes()));
}

#[test]
fn numbers_outside_contract_are_refused_with_value() {
    for (shares, threshold, said) in [
        (0, 0, "0 shares"),
        (0, 1, "0 shares"),
        (256, 3, "256 shares"),
        (u64::MAX, 2, "18446744073709551615 shares"),
        (5, 0, "threshold of 0"),
        (5, 6, "threshold of 6"),
        (5, 258, "threshold of 258"),
        (3, 1, "threshold of 1"),
    ] {
        let text = SealConfig::new(shares, threshold).unwrap_err();
        assert!(text.contains(said) && text.contains("ask for"), "{text}");
    }
    for (shares, threshold) in [(1, 1), (2, 2), (5, 3), (255, 255), (255, 2)] {
        let config = SealConfig::new(shares, threshold).unwrap();
        assert_eq!((u64::from(config.shares), u64::from(config.threshold)), (shares, threshold));
    }
    assert!(matches!(
        split(&SealKey::from_bytes([1; 32]), config(3, 1)),
        Err(StoreFault::Refused(_))
    ));
}

#[test]
fn key_is_parsed_from_raw_bytes_and_texts() {
    let raw: [u8; 32] = std::array::from_fn(|position| u8::try_from(position * 8).unwrap() ^ 0xfb);
    let standard = STANDARD.encode(raw);
    assert!(standard.contains(['+', '/']) && standard.ends_with('='), "{standard}");
    let url_safe = standard.replace('+', "-").replace('/', "_");
    let texts = [
        hexadecimal::text(&raw),
        hexadecimal::text(&raw).to_uppercase(),
        format!("{}\n", hexadecimal::text(&raw)),
        format!("  {standard}\r\n"),
        standard.trim_end_matches('=').to_owned(),
        url_safe,
        standard,
    ];
    let contents = texts.iter().map(|text| text.as_bytes().to_vec()).chain([raw.to_vec()]);
    for content in contents {
        let key = SealKey::parse(&content).unwrap_or_else(|| panic!("{content:?}"));
        assert_eq!(key.bytes(), &raw);
    }
    let mut with_line_feed = raw.to_vec();
    with_line_feed.push(b'\n');
    let long = [STANDARD.encode(raw), "AAAA".to_owned()].concat();
    let password = [b'p'; 32];
    for content in [
        &b""[..],
        b"x",
        &password,
        &raw[..31],
        &with_line_feed,
        &[b'g'; 64],
        long.as_bytes(),
        &[b'a'; 66],
    ] {
        assert!(SealKey::parse(content).is_none(), "{content:?}");
    }
}
