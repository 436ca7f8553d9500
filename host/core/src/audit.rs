//! Audit: who asked for what, and what came of it, on devices of the operator's.
//!
//! The attack this file stops: an act that cannot be found afterwards. While there is a device, a
//! request is entered only after one recorded it, and an answer leaves only after one recorded it
//! (`pipeline/audit_trail.rs`). A device that was asked for and does not work counts as one that
//! records nothing: it is never left out.
//!
//! What is not recorded: the endpoints that answer while sealed (decision H21), which know
//! no token, and what the listener refuses before it knows who asks for which path: bytes that are
//! not HTTP, unknown verbs, too many headers, two different tokens, paths that have no canonical
//! form. A body, a query or a header that is refused after that is recorded like any other refusal.

mod bounds;
mod device;
mod digests;
mod file;
mod flush;
mod group;
mod hashing;
mod json;
pub(crate) mod line;
mod options;
mod path;
mod redaction;
mod refusal;
mod settings;
mod stored;
pub(crate) mod subject;
mod unseals;
mod writer;

pub(crate) use device::{Device, Origin};
pub(crate) use options::option_fields;
pub(crate) use refusal::Refusal;
pub use settings::{AuditSettings, DeviceRefusal, DeviceSetting, DeviceSettings};
pub(crate) use stored::StoredDevice;
pub(crate) use unseals::RefusedUnseals;

use crate::log::Log;
use bulkhead_store::{Store, Unit};
use bulkhead_wire::failure::Failure;
use bulkhead_wire::sync;
use device::Parts;
use file::{LineFile, Place};
use hashing::Hashing;
use std::path::PathBuf;
use std::sync::{Arc, RwLock};

/// The devices in use, of which a request takes those that are there when it comes.
pub(crate) type Devices = Arc<[Arc<Device>]>;

/// A change of the devices, to take effect once it is committed.
pub(crate) enum AuditChange {
    Made(Arc<Device>),
    /// By its name.
    Removed(String),
}

/// The audit of an open store.
pub(crate) struct Audit {
    devices: RwLock<Devices>,
    api_directory: Option<PathBuf>,
    log: Arc<dyn Log>,
}

/// Refuses a configuration that no audit could follow: names, permissions, files that cannot be
/// opened.
///
/// # Errors
/// Which device, what is wrong with it, and what to do, for the operator who starts the server.
pub(crate) async fn check(settings: &AuditSettings) -> Result<(), Failure> {
    for (index, device) in settings.devices.iter().enumerate() {
        let DeviceSettings { name, file, mode, .. } = device;
        let refused = |why: String| Failure::invalid(format!("audit device {name:?}: {why}"));
        let before = settings.devices.get(..index).unwrap_or_default();
        device.check(before).map_err(|refusal| refused(refusal.why))?;
        let opened = LineFile::new(Place::File(file.clone()), *mode, false).reopen().await;
        opened.map_err(|error| refused(format!("{} cannot be opened: {error}", file.display())))?;
    }
    Ok(())
}

impl Audit {
    /// Opens the devices of the configuration and those that the API made. One that cannot be
    /// opened is told, and counts as failing: where it is the only one nothing is served until its
    /// file can be opened, or another device is configured.
    ///
    /// # Errors
    /// 503 when the store cannot be read.
    pub(crate) async fn open(
        store: &Arc<Store>,
        settings: &AuditSettings,
        log: &Arc<dyn Log>,
    ) -> Result<Self, Failure> {
        let audit = Self {
            devices: RwLock::new(Arc::new([])),
            api_directory: settings.api_directory.clone(),
            log: Arc::clone(log),
        };
        for device in &settings.devices {
            let place = Place::File(device.file.clone());
            let hashing = Hashing::of(store, &device.name);
            audit.add(audit.device(Parts {
                settings: device.clone(),
                place,
                origin: Origin::Configuration,
                hashing,
            }));
        }
        for (name, stored) in stored::all(store).await? {
            if audit.find(&name).is_some() {
                log.line("warn", "audit-device-hidden", &[("device", name)]);
                continue;
            }
            audit.add(audit.device(audit.of_stored(store, &name, stored)));
        }
        for device in audit.devices().iter() {
            if !device.reopen().await {
                device.fail();
            }
        }
        audit.tell_if_none();
        Ok(audit)
    }

    /// Tells the operator where nothing is recorded: at each start, and when the last device is
    /// removed.
    fn tell_if_none(&self) {
        if self.devices().is_empty() {
            let todo = "declare an audit \"file\" block in the configuration";
            let pairs =
                [("effect", "no request is recorded".to_owned()), ("todo", todo.to_owned())];
            self.log.line("warn", "audit-has-no-device", &pairs);
        }
    }

    /// Whether requests can be recorded: a device works, or there is none.
    pub(crate) fn works(&self) -> bool {
        let devices = self.devices();
        devices.is_empty() || devices.iter().any(|device| device.works())
    }

    /// Tries the devices with a line each, where none works: a node that no client is sent to any
    /// more must find out by itself that the disk has space again. `id` is the request's that asks.
    pub(crate) async fn try_again(&self, now: u64, id: &str) {
        if self.works() {
            return;
        }
        for device in self.devices().iter() {
            device.prove(&subject::time(now), id).await;
        }
    }

    /// Those that are in use now. None of them: nothing is recorded.
    pub(crate) fn devices(&self) -> Devices {
        Arc::clone(&sync::read(&self.devices))
    }

    /// The device of that name.
    pub(crate) fn find(&self, name: &str) -> Option<Arc<Device>> {
        self.devices().iter().find(|device| device.settings.name == name).map(Arc::clone)
    }

    /// Goes over to the files that are now at the places of the devices, after the operator moved
    /// the old ones away. A device whose place cannot be opened keeps its file, and tells.
    pub(crate) async fn reopen(&self) {
        for device in self.devices().iter() {
            if device.reopen().await {
                self.log.line(
                    "info",
                    "audit-reopened",
                    &[("device", device.settings.name.clone())],
                );
            }
        }
    }

    /// Opens a device that the API asks for, writes a first line, and its record into the unit. It
    /// is used once [`Audit::change`] has it. `id` is the request's.
    ///
    /// # Errors
    /// 400 where the API may make none, the name is taken, the options are refused, or the file
    /// takes no line.
    pub(crate) async fn enable(
        &self,
        store: &Arc<Store>,
        unit: &mut Unit,
        asked: StoredDevice,
        id: &str,
    ) -> Result<Arc<Device>, Failure> {
        let Some(directory) = &self.api_directory else {
            return Err(Failure::invalid(
                "the API may not make audit devices on this server, because it would write files; \
                 declare the device \
                 in the configuration, or set allow_api_audit and audit_directory there",
            ));
        };
        let name = asked.name.clone();
        if self.find(&name).is_some() || stored::is_stored(unit, &name).await? {
            return Err(Failure::invalid(format!(
                "path is already in use at {name}/; choose another path"
            )));
        }
        let (settings, place) = options::read(&name, &asked.options, directory)?;
        if let Some(other) =
            self.devices().iter().find(|other| other.settings.file == settings.file)
        {
            let (file, other) = (settings.file.display(), &other.settings.name);
            return Err(Failure::invalid(format!(
                "audit device {other} writes to {file}; choose another file_path"
            )));
        }
        asked.put(unit)?;
        let file = settings.file.display().to_string();
        let hashing = Hashing::of(store, &name);
        let device = self.device(Parts { settings, place, origin: Origin::Api(asked), hashing });
        if !device.reopen().await || !device.prove(&subject::time(store.now()), id).await {
            return Err(Failure::invalid(format!(
                "{file} cannot be written to; the server's log says why"
            )));
        }
        Ok(device)
    }

    /// Removes in the unit what the API made. What is not there is removed already.
    ///
    /// # Errors
    /// 400 for a device of the configuration.
    pub(crate) fn disable(&self, unit: &mut Unit, name: &str) -> Result<(), Failure> {
        if self.find(name).is_some_and(|device| matches!(device.origin, Origin::Configuration)) {
            return Err(Failure::invalid(format!(
                "audit device {name} is declared in the configuration; remove it there and restart \
                 the server"
            )));
        }
        stored::delete(unit, name);
        Ok(())
    }

    /// Lets a committed change take effect.
    pub(crate) fn change(&self, change: AuditChange) {
        let (event, name) = match change {
            AuditChange::Made(device) => {
                let name = device.settings.name.clone();
                self.add(device);
                ("audit-device-made", name)
            }
            AuditChange::Removed(name) => {
                self.remove(&name);
                ("audit-device-removed", name)
            }
        };
        self.log.line("info", event, &[("device", name)]);
        self.tell_if_none();
    }

    /// Uses a device from the next request on.
    fn add(&self, device: Arc<Device>) {
        let mut devices = sync::write(&self.devices);
        *devices = devices.iter().cloned().chain([device]).collect();
    }

    /// Uses a device no more from the next request on; those that are under way end on it.
    fn remove(&self, name: &str) {
        let mut devices = sync::write(&self.devices);
        *devices = devices.iter().filter(|device| device.settings.name != name).cloned().collect();
    }

    fn device(&self, parts: Parts) -> Arc<Device> {
        Device::new(parts, &self.log)
    }

    /// A device that was made by the API. What keeps it from being used is left to its first line
    /// to tell.
    fn of_stored(&self, store: &Store, name: &str, stored: Result<StoredDevice, Failure>) -> Parts {
        let blank = || StoredDevice {
            name: name.to_owned(),
            description: String::new(),
            local: false,
            options: serde_json::Map::new(),
        };
        let read = match (&stored, &self.api_directory) {
            (Ok(stored), Some(directory)) => options::read(name, &stored.options, directory),
            (Ok(_), None) => Err(Failure::invalid(
                "the configuration does not let the API have audit devices any more",
            )),
            (Err(unreadable), _) => Err(unreadable.clone()),
        };
        let (settings, place) = read.unwrap_or_else(|why| {
            let settings = DeviceSettings::new(name, PathBuf::new());
            (settings, Place::Nowhere(why.recorded_or_code().to_owned()))
        });
        let origin = Origin::Api(stored.unwrap_or_else(|_| blank()));
        Parts { settings, place, origin, hashing: Hashing::of(store, name) }
    }
}
