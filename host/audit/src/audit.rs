//! The devices of an open store, and the request headers that lines show.
//!
//! This file prevents a request that escapes a device: a request keeps the devices that exist when
//! the request arrives, and a configured device that does not work counts as failing.

use super::device::{AuditDevice, DeviceOrigin, DeviceParts};
use super::file::{AuditTarget, LineFile};
use super::hashing::HashingKey;
use super::settings::{AuditSettings, DeviceSettings};
use super::stored::{self, StoredDevice};
use super::{options, request_headers, subject};
use bulkhead_access::log::Log;
use bulkhead_store::{Store, Unit};
use bulkhead_wire::failure::Failure;
use bulkhead_wire::log_level::LogLevel;
use bulkhead_wire::sync;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, RwLock};
use tokio::sync::Notify;

/// The devices in use. A request keeps the devices that exist when the request arrives.
pub type AuditDevices = Arc<[Arc<AuditDevice>]>;

/// A change of the devices that takes effect once committed.
pub enum AuditChange {
    /// A device opened and tested on request of the API; receives the lines of later requests.
    Made(Arc<AuditDevice>),
    /// Name of the removed device.
    Removed(String),
    /// Lower-case name of a request header, and true if its value is hashed; `None` if the header
    /// is not recorded any more.
    RequestHeader(String, Option<bool>),
}

/// The audit of an open store.
pub struct Audit {
    devices: RwLock<AuditDevices>,
    /// The recorded request headers, each with true if its value is hashed.
    request_headers: RwLock<Arc<BTreeMap<String, bool>>>,
    api_directory: Option<PathBuf>,
    log: Arc<dyn Log>,
    /// Rung at each change of the devices, or of the state of a device.
    changes: Arc<Notify>,
}

/// Refuses an audit configuration with unusable names, permissions or files.
///
/// # Errors
/// The device, the fault and the remedy, for the operator who starts the server.
pub async fn check(settings: &AuditSettings) -> Result<(), Failure> {
    for (index, device) in settings.devices.iter().enumerate() {
        let DeviceSettings { name, file, mode, .. } = device;
        let refused = |why: String| Failure::invalid(format!("audit device {name:?}: {why}"));
        let before = settings.devices.get(..index).unwrap_or_default();
        device.check(before).map_err(|refusal| refused(refusal.why))?;
        let opened = LineFile::new(AuditTarget::File(file.clone()), *mode, false).reopen().await;
        opened.map_err(|error| refused(format!("{} cannot be opened: {error}", file.display())))?;
    }
    Ok(())
}

impl Audit {
    /// Opens the devices of the configuration and the devices that the API made.
    ///
    /// A device whose file cannot be opened is logged and counts as failing. If no other device
    /// works, the server serves nothing until the file can be opened or another device is
    /// configured.
    ///
    /// # Errors
    /// 503 when the store cannot be read.
    pub async fn open(
        store: &Arc<Store>,
        settings: &AuditSettings,
        log: &Arc<dyn Log>,
    ) -> Result<Self, Failure> {
        let audit = Self {
            devices: RwLock::new(Arc::new([])),
            request_headers: RwLock::new(Arc::new(request_headers::all(store).await?)),
            api_directory: settings.api_directory.clone(),
            log: Arc::clone(log),
            changes: Arc::default(),
        };
        for device in &settings.devices {
            let place = AuditTarget::File(device.file.clone());
            let hashing = HashingKey::of(store, &device.name);
            audit.add(audit.device(DeviceParts {
                settings: device.clone(),
                place,
                origin: DeviceOrigin::Configuration,
                hashing,
                changes: Arc::clone(&audit.changes),
            }));
        }
        for (name, stored) in stored::all(store).await? {
            if audit.find(&name).is_some() {
                log.line(LogLevel::Warn, "audit-device-ignored", &[("device", name)]);
                continue;
            }
            audit.add(audit.device(audit.of_stored(store, &name, stored)));
        }
        for device in audit.devices().iter() {
            if !device.reopen().await {
                device.fail();
            }
        }
        audit.warn_without_devices();
        Ok(audit)
    }

    /// Takes over the devices and request headers that another node, which shares the database,
    /// made or removed through the API.
    ///
    /// A device whose file cannot be opened on this node is logged and counts as failing.
    ///
    /// # Errors
    /// 503 if the store cannot be read; nothing was changed.
    pub async fn reload(&self, store: &Arc<Store>) -> Result<(), Failure> {
        let headers = request_headers::all(store).await?;
        let stored = stored::all(store).await?;
        *sync::write(&self.request_headers) = Arc::new(headers);
        for device in self.devices().iter().filter(|device| device.origin.stored().is_some()) {
            let name = &device.settings.name;
            if stored.iter().all(|(stored, _)| stored != name) {
                self.change(AuditChange::Removed(name.clone()));
            }
        }
        for (name, stored) in stored {
            if self.find(&name).is_some_and(|device| device.origin.is_up_to_date(&stored)) {
                continue;
            }
            let device = self.device(self.of_stored(store, &name, stored));
            if !device.reopen().await {
                device.fail();
            }
            self.change(AuditChange::Made(device));
        }
        Ok(())
    }

    /// Warns the operator that nothing is recorded: at each start, and when the last device is
    /// removed.
    fn warn_without_devices(&self) {
        if self.devices().is_empty() {
            let todo = "declare an audit \"file\" block in the configuration";
            let pairs =
                [("effect", "no request is recorded".to_owned()), ("todo", todo.to_owned())];
            self.log.line(LogLevel::Warn, "audit-without-device", &pairs);
        }
    }

    /// Returns the number of failing devices.
    pub fn count_failing(&self) -> usize {
        self.devices().iter().filter(|device| !device.works()).count()
    }

    /// Waits for the next change of the devices or of the state of a device. A change before the
    /// call counts, unless an earlier call returned for the change. Only one task may wait.
    pub async fn changed(&self) {
        self.changes.notified().await;
    }

    /// Probes every failing device with a test line.
    ///
    /// A node that no longer receives requests from clients must find out by itself that the disk
    /// has space again. `id` is the id of the request that triggers the probe.
    pub async fn try_again(&self, now: u64, id: &str) {
        for device in self.devices().iter().filter(|device| !device.works()) {
            device.prove(&subject::time(now), id).await;
        }
    }

    /// Returns the devices in use. If the list is empty, nothing is recorded.
    pub fn devices(&self) -> AuditDevices {
        Arc::clone(&sync::read(&self.devices))
    }

    /// Returns the device with this name.
    pub fn find(&self, name: &str) -> Option<Arc<AuditDevice>> {
        self.devices().iter().find(|device| device.settings.name == name).map(Arc::clone)
    }

    /// Reopens the file of each device, after the operator moved the old files away.
    ///
    /// If a file cannot be opened, the device keeps the old file and logs the error.
    pub async fn reopen(&self) {
        for device in self.devices().iter() {
            if device.reopen().await {
                self.log.line(
                    LogLevel::Info,
                    "audit-reopened",
                    &[("device", device.settings.name.clone())],
                );
            }
        }
    }

    /// Opens a device that the API asked for, writes a test line, and puts the device's record into
    /// the unit. The device is in use once [`Audit::change`] has run. `id` is the id of the
    /// request.
    ///
    /// # Errors
    /// 400 if the API may not make devices, the name is taken, an option is refused, or the file
    /// cannot be written to.
    pub async fn enable(
        &self,
        store: &Arc<Store>,
        unit: &mut Unit,
        record: StoredDevice,
        id: &str,
    ) -> Result<Arc<AuditDevice>, Failure> {
        let Some(directory) = &self.api_directory else {
            return Err(Failure::invalid(
                "the API may not make audit devices on this server, because a device writes files; \
                 declare the device in the configuration, or set allow_api_audit and \
                 audit_directory there",
            ));
        };
        let name = record.name.clone();
        if self.find(&name).is_some() || stored::is_stored(unit, &name).await? {
            return Err(Failure::invalid(format!(
                "path is already in use at {name}/; choose another path"
            )));
        }
        let (settings, place) = options::read(&name, &record.options, directory)?;
        if let Some(other) =
            self.devices().iter().find(|other| other.settings.file == settings.file)
        {
            let (file, other) = (settings.file.display(), &other.settings.name);
            return Err(Failure::invalid(format!(
                "audit device {other} writes to {file}; choose another file_path"
            )));
        }
        record.put(unit)?;
        let file = settings.file.display().to_string();
        let hashing = HashingKey::of(store, &name);
        let device = self.device(DeviceParts {
            settings,
            place,
            origin: DeviceOrigin::Api(record),
            hashing,
            changes: Arc::clone(&self.changes),
        });
        if !device.reopen().await || !device.prove(&subject::time(store.now()), id).await {
            return Err(Failure::invalid(format!(
                "{file} cannot be written to; the server's log says why"
            )));
        }
        Ok(device)
    }

    /// Deletes a device that the API made, within the unit. An unknown name is not an error.
    ///
    /// # Errors
    /// 400 for a device of the configuration.
    pub fn disable(&self, unit: &mut Unit, name: &str) -> Result<(), Failure> {
        if self
            .find(name)
            .is_some_and(|device| matches!(device.origin, DeviceOrigin::Configuration))
        {
            return Err(Failure::invalid(format!(
                "audit device {name} is declared in the configuration; remove the device there and \
                 restart the server"
            )));
        }
        stored::delete(unit, name);
        Ok(())
    }

    /// Applies a committed change.
    pub fn change(&self, change: AuditChange) {
        let (event, name) = match change {
            AuditChange::RequestHeader(name, is_hashed) => {
                return self.record_header(name, is_hashed);
            }
            AuditChange::Made(device) => {
                let name = device.settings.name.clone();
                self.add(device);
                ("audit-device-enabled", name)
            }
            AuditChange::Removed(name) => {
                self.remove(&name);
                ("audit-device-removed", name)
            }
        };
        self.log.line(LogLevel::Info, event, &[("device", name)]);
        self.warn_without_devices();
    }

    /// Returns the recorded request headers, each with true if its value is hashed.
    pub fn request_headers(&self) -> Arc<BTreeMap<String, bool>> {
        Arc::clone(&sync::read(&self.request_headers))
    }

    fn record_header(&self, name: String, is_hashed: Option<bool>) {
        let mut headers = sync::write(&self.request_headers);
        let mut changed = BTreeMap::clone(&headers);
        match is_hashed {
            Some(is_hashed) => changed.insert(name, is_hashed),
            None => changed.remove(&name),
        };
        *headers = Arc::new(changed);
    }

    /// Adds a device, in use from the next request on. The device replaces a device of its name.
    fn add(&self, device: Arc<AuditDevice>) {
        let mut devices = sync::write(&self.devices);
        let others = devices.iter().filter(|other| other.settings.name != device.settings.name);
        *devices = others.cloned().chain([Arc::clone(&device)]).collect();
        self.changes.notify_one();
    }

    /// Removes a device from the next request on. Requests under way still write to the device.
    fn remove(&self, name: &str) {
        let mut devices = sync::write(&self.devices);
        *devices = devices.iter().filter(|device| device.settings.name != name).cloned().collect();
        self.changes.notify_one();
    }

    fn device(&self, parts: DeviceParts) -> Arc<AuditDevice> {
        AuditDevice::new(parts, &self.log)
    }

    /// Returns the parts of a stored device that the API made. If the record or its options are
    /// unusable, the device's first line fails with the reason.
    fn of_stored(
        &self,
        store: &Store,
        name: &str,
        stored: Result<StoredDevice, Failure>,
    ) -> DeviceParts {
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
            (settings, AuditTarget::Nowhere(why.recorded_or_code().to_owned()))
        });
        let origin = DeviceOrigin::Api(stored.unwrap_or_else(|_| blank()));
        let hashing = HashingKey::of(store, name);
        DeviceParts { settings, place, origin, hashing, changes: Arc::clone(&self.changes) }
    }
}
