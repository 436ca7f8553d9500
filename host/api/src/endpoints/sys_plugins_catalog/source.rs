//! The source of a component to register: the body of the request, or the plugin directory.

use crate::endpoints::call::RequestFields;
use bulkhead_core::Core;
use bulkhead_core::catalog::ComponentOrigin;
use bulkhead_wire::failure::{Failure, quoted};
use bulkhead_wire::request::Request;
use std::sync::Arc;

/// Maximum size of a component, in bytes: the maximum body of the listener.
pub(super) const COMPONENT_BYTES: u64 = 32 << 20;

/// Reads the component that a request registers.
///
/// # Errors
/// 400 for settings of a process, for no source or several sources, and for an unusable file.
pub(super) async fn read(
    core: &Core,
    request: &Request,
    fields: RequestFields<'_>,
) -> Result<(Arc<Vec<u8>>, ComponentOrigin), Failure> {
    check_no_process(fields)?;
    let text = |name| fields.text(name).to_owned();
    let origin = ComponentOrigin {
        command: text("command"),
        oci_image: text("oci_image"),
        signature: text("signature"),
        signed_by: String::new(),
    };
    check_named(&origin)?;
    match (&request.raw, origin.is_upload()) {
        (Some(raw), true) => Ok((Arc::clone(raw.bytes()), origin)),
        (None, false) => {
            let wasm = from_directory(core, fields.text("sha256"), &origin).await?;
            Ok((Arc::new(wasm), origin))
        }
        (None, true) => Err(Failure::invalid(
            "there is no component: send the file itself as the body, with Content-Type: \
             application/wasm and the fields as query parameters; or send command and sha256 for a \
             file of the plugin directory",
        )),
        (Some(_), false) => Err(Failure::invalid(
            "the component is in the body, and command or oci_image names another component; leave \
             one of the two out",
        )),
    }
}

/// Refuses two names of one component, and the name of an image in a registry.
fn check_named(origin: &ComponentOrigin) -> Result<(), Failure> {
    if !origin.command.is_empty() && !origin.oci_image.is_empty() {
        return Err(Failure::invalid(
            "command and oci_image each name a component; leave one of the two out",
        ));
    }
    if origin.oci_image.contains('/') {
        return Err(Failure::invalid(format!(
            "oci_image {} is not a name in the plugin directory, and images are not fetched from a \
             registry: copy the image into the plugin directory as an image layout, and give the \
             layout's directory name",
            quoted(&origin.oci_image)
        )));
    }
    Ok(())
}

/// Refuses settings that only a process could have.
fn check_no_process(fields: RequestFields<'_>) -> Result<(), Failure> {
    let setting = ["args", "env"].into_iter().find(|name| !fields.list(name).is_empty());
    let setting = setting.or_else(|| Some("runtime").filter(|name| !fields.text(name).is_empty()));
    let Some(name) = setting else { return Ok(()) };
    Err(Failure::invalid(format!(
        "{name}: a component is not a process and has neither args, env nor a runtime; leave \
         {name} out, and configure the plugin through its mount"
    )))
}

/// Reads the component from the plugin directory.
async fn from_directory(
    core: &Core,
    sha256: &str,
    origin: &ComponentOrigin,
) -> Result<Vec<u8>, Failure> {
    let directory = core.process.settings.plugin_directory.as_ref().ok_or_else(|| {
        Failure::invalid(
            "this server has no plugin directory: set plugin_directory in the configuration, or \
             send the component as the body (bulkhead plugin register FILE)",
        )
    })?;
    if sha256.is_empty() {
        return Err(Failure::invalid(
            "sha256 is required with command and oci_image: give the digest of the component, as \
             sha256sum prints it",
        ));
    }
    directory.component(origin, COMPONENT_BYTES).await
}
