//! Words of policy rules: blocks, levels, and capabilities.
//!
//! Source: the strict parser of Nomad 2.0.5 (August 2026). `fixtures/rules/nomad-2.0.5.jsonl` holds
//! the answer of that parser to every word in every block, and the tests compare this table with
//! all of its lines. A new release of the scheduler: record the answers of its parser in a new
//! file, and change this table until the tests pass.

/// A kind of block.
pub(super) struct BlockKind {
    /// Key of the block.
    pub(super) block: &'static str,
    /// Name in the parsed form.
    pub(super) shown: &'static str,
    /// Name in error messages.
    pub(super) noun: &'static str,
    pub(super) label: BlockLabel,
    pub(super) levels: &'static [PolicyLevel],
    /// Words of the list `capabilities`; `None` if blocks of this kind have no such list, so that
    /// each needs a level.
    pub(super) capabilities: Option<&'static [&'static str]>,
    /// Capabilities that contain other capabilities.
    pub(super) implied: &'static [ImpliedCapabilities],
    pub(super) has_variables: bool,
}

/// The label of a block.
pub(super) enum BlockLabel {
    /// The block has no label and occurs once.
    Absent,
    /// The block has a label of ASCII letters, digits, `-`, `*` and these characters, and may occur
    /// several times.
    Required(&'static [u8]),
}

/// A value of `policy`.
pub(super) struct PolicyLevel {
    pub(super) word: &'static str,
    /// Lists of capabilities that the level stands for.
    pub(super) grants: &'static [&'static [&'static str]],
}

/// A capability, and the capabilities that it contains.
pub(super) struct ImpliedCapabilities {
    pub(super) word: &'static str,
    pub(super) adds: &'static [&'static str],
}

/// Maximum length of a label, in bytes.
pub(super) const LONGEST_LABEL: usize = 128;

/// Capabilities of a path of variables.
pub(super) const VARIABLES: &[&str] = &["list", "read", "write", "destroy", "deny"];

/// Every kind of block, in the order of the parsed form.
pub(super) const KINDS: [BlockKind; 9] = [
    BlockKind {
        block: "namespace",
        shown: "Namespaces",
        noun: "namespace",
        label: BlockLabel::Required(b""),
        levels: &[
            level("read", &[READ_NAMESPACE]),
            level("write", &[READ_NAMESPACE, WRITE_NAMESPACE]),
            level("scale", &[SCALE_NAMESPACE]),
            level("deny", &[&["deny"]]),
        ],
        capabilities: Some(NAMESPACE),
        implied: IMPLIED_BY_VOLUMES,
        has_variables: true,
    },
    BlockKind {
        block: "node_pool",
        shown: "NodePools",
        noun: "node pool",
        label: BlockLabel::Required(b"_"),
        levels: &[
            level("read", &[&["read"]]),
            level("write", &[&["delete", "read", "write"]]),
            level("scale", &[]),
            level("deny", &[&["deny"]]),
        ],
        capabilities: Some(&["delete", "deny", "read", "write"]),
        implied: &[],
        has_variables: false,
    },
    BlockKind {
        block: "host_volume",
        shown: "HostVolumes",
        noun: "host volume",
        label: BlockLabel::Required(b""),
        levels: &[
            level("read", &[&["mount-readonly"]]),
            level("write", &[&["mount-readonly", "mount-readwrite"]]),
            level("scale", &[]),
            level("deny", &[&["deny"]]),
        ],
        capabilities: Some(&["deny", "mount-readonly", "mount-readwrite"]),
        implied: &[],
        has_variables: false,
    },
    bare("agent", "Agent", LEVELS),
    bare("node", "Node", LEVELS),
    BlockKind {
        levels: &[
            level("read", &[&["license-read", "keyring-read"]]),
            level("write", &[OPERATOR_WRITE]),
            level("scale", &[]),
            level("deny", &[&["deny"]]),
        ],
        capabilities: Some(&[
            "deny",
            "snapshot-save",
            "license-read",
            "keyring-rotate",
            "keyring-read",
            "keyring-delete",
        ]),
        ..bare("operator", "Operator", LEVELS)
    },
    BlockKind {
        levels: &[
            level("read", &[&["sentinel-read"]]),
            level("write", &[&["sentinel-read", "sentinel-submit", "sentinel-delete"]]),
            level("scale", &[]),
            level("deny", &[&["deny"]]),
        ],
        capabilities: Some(&["deny", "sentinel-read", "sentinel-submit", "sentinel-delete"]),
        ..bare("sentinel", "Sentinel", LEVELS)
    },
    bare("quota", "Quota", LEVELS),
    bare("plugin", "Plugin", PLUGIN_LEVELS),
];

const LEVELS: &[PolicyLevel] =
    &[level("read", &[]), level("write", &[]), level("scale", &[]), level("deny", &[])];

const PLUGIN_LEVELS: &[PolicyLevel] =
    &[level("list", &[]), level("read", &[]), level("write", &[]), level("deny", &[])];

const NAMESPACE: &[&str] = &[
    "deny",
    "list-jobs",
    "parse-job",
    "read-job",
    "submit-job",
    "dispatch-job",
    "read-logs",
    "read-fs",
    "alloc-exec",
    "alloc-node-exec",
    "alloc-lifecycle",
    "sentinel-override",
    "csi-register-plugin",
    "csi-write-volume",
    "csi-read-volume",
    "csi-list-volume",
    "csi-mount-volume",
    "host-volume-create",
    "host-volume-register",
    "host-volume-read",
    "host-volume-write",
    "host-volume-delete",
    "list-scaling-policies",
    "read-scaling-policy",
    "read-job-scaling",
    "scale-job",
    "submit-recommendation",
    "register-job",
    "revert-job",
    "deregister-job",
    "purge-job",
    "evaluate-job",
    "plan-job",
    "tag-job-version",
    "stable-job",
    "fail-deployment",
    "pause-deployment",
    "promote-deployment",
    "unblock-deployment",
    "cancel-deployment",
    "set-alloc-health-deployment",
    "gc-allocation",
    "pause-allocation",
    "force-periodic-job",
    "delete-service-registration",
];

const READ_NAMESPACE: &[&str] = &[
    "list-jobs",
    "parse-job",
    "read-job",
    "csi-list-volume",
    "csi-read-volume",
    "read-job-scaling",
    "list-scaling-policies",
    "read-scaling-policy",
    "host-volume-read",
];

/// Capabilities that `write` grants in a namespace besides those of `read`.
const WRITE_NAMESPACE: &[&str] = &[
    "scale-job",
    "submit-job",
    "dispatch-job",
    "read-logs",
    "read-fs",
    "alloc-exec",
    "alloc-lifecycle",
    "csi-mount-volume",
    "csi-write-volume",
    "submit-recommendation",
    "host-volume-create",
];

const SCALE_NAMESPACE: &[&str] = &[
    "list-scaling-policies",
    "read-scaling-policy",
    "read-job-scaling",
    "scale-job",
    "read-job",
    "submit-recommendation",
];

const OPERATOR_WRITE: &[&str] =
    &["snapshot-save", "license-read", "keyring-rotate", "keyring-read", "keyring-delete"];

const IMPLIED_BY_VOLUMES: &[ImpliedCapabilities] = &[
    ImpliedCapabilities {
        word: "host-volume-write",
        adds: &[
            "host-volume-register",
            "host-volume-create",
            "host-volume-delete",
            "host-volume-read",
        ],
    },
    ImpliedCapabilities {
        word: "host-volume-register",
        adds: &["host-volume-create", "host-volume-read"],
    },
    ImpliedCapabilities { word: "host-volume-create", adds: &["host-volume-read"] },
];

const fn level(word: &'static str, grants: &'static [&'static [&'static str]]) -> PolicyLevel {
    PolicyLevel { word, grants }
}

/// Creates a kind of block with a level alone.
const fn bare(
    block: &'static str,
    shown: &'static str,
    levels: &'static [PolicyLevel],
) -> BlockKind {
    BlockKind {
        block,
        shown,
        noun: block,
        label: BlockLabel::Absent,
        levels,
        capabilities: None,
        implied: &[],
        has_variables: false,
    }
}
