//! Hand-written encoding of WebAssembly, for components that no compiler would produce.

/// Header of a component.
pub const COMPONENT: [u8; 8] = [0, b'a', b's', b'm', 0x0d, 0, 1, 0];
/// Header of a core module.
pub const MODULE: [u8; 8] = [0, b'a', b's', b'm', 1, 0, 0, 0];

pub fn number(mut value: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value > 0x7f {
        bytes.push(u8::try_from(value & 0x7f).expect("seven bits") | 0x80);
        value >>= 7;
    }
    bytes.push(u8::try_from(value).expect("seven bits"));
    bytes
}

/// Encodes a section of a component or a core module.
pub fn section(id: u8, content: &[u8]) -> Vec<u8> {
    [vec![id], number(content.len()), content.to_vec()].concat()
}
