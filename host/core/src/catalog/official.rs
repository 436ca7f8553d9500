//! The components in this binary.

/// A component in this binary.
#[derive(Clone, Copy)]
pub struct OfficialComponent {
    /// The component's bytes.
    pub wasm: &'static [u8],
    /// The component's code, compiled during the build.
    pub compiled: &'static [u8],
}

/// A seal plugin in this binary. The catalog has no seal plugins: nobody mounts, replaces or lists
/// a seal plugin (decision H93).
#[derive(Clone, Copy)]
pub struct OfficialSeal {
    /// The word behind `seal` in the configuration.
    pub kind: &'static str,
    /// The component.
    pub component: OfficialComponent,
}
