//! The components in this binary.

/// A component in this binary.
#[derive(Clone, Copy)]
pub struct OfficialComponent {
    /// The component's bytes.
    pub wasm: &'static [u8],
    /// The component's code, compiled during the build.
    pub compiled: &'static [u8],
}
