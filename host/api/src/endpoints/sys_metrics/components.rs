//! Metrics of components: instances, host calls, traps, exceeded limits, breakers, swaps, and
//! memory.

use super::family::MetricFamilies;
use super::registration::{MetricGroup, Registration, counter, gauge};
use bulkhead_core::Core;
use bulkhead_core::mounts::Mount;

const INSTANCES: Registration<1> = gauge(
    "bulkhead_component_instances",
    ["state"],
    "instances of components that calls hold (running) or that wait for a call (idle)",
    "is the pool of instances used up",
);
const WAITING: Registration<0> = gauge(
    "bulkhead_component_calls_waiting",
    [],
    "calls that wait for an instance",
    "do requests wait for instances",
);
const HOST_CALLS: Registration<1> = counter(
    "bulkhead_component_host_calls_total",
    ["mount"],
    "host calls of a mount's components, such as reads of the storage",
    "which mount's component calls the host often, so that its requests cost more",
);
const TRAPS: Registration<3> = counter(
    "bulkhead_component_traps_total",
    ["mount", "plugin", "version"],
    "calls of a mount that ended with a trap of a component, by plugin and version",
    "which component crashes, and since which version",
);
const LIMITS: Registration<2> = counter(
    "bulkhead_component_limits_reached_total",
    ["mount", "limit"],
    "calls of a mount that were stopped or refused at a limit, by limit",
    "which limit is too low, or which component takes too much",
);
const BREAKER: Registration<1> = gauge(
    "bulkhead_mount_breaker_open",
    ["mount"],
    "1 for a mount that rests after crashes",
    "which mount refuses requests because its component crashes",
);
const SWAPS: Registration<1> = counter(
    "bulkhead_plugin_swaps_total",
    ["outcome"],
    "changes of the plugin version of mounts, by outcome",
    "did a change of versions fail",
);
const LOADS: Registration<1> = counter(
    "bulkhead_compiled_code_loads_total",
    ["source"],
    "loads of stored compiled code, and compilations of uploaded components",
    "are components compiled again and again",
);
const MEMORY: Registration<1> = gauge(
    "bulkhead_mount_memory_bytes",
    ["mount"],
    "memory of a mount: linear memories of running and idle instances, data held for calls, cache",
    "which mount takes the memory",
);

/// The metrics of this file.
pub(super) const GROUP: MetricGroup = MetricGroup {
    mark: "metrics-components",
    metrics: &[
        &INSTANCES,
        &WAITING,
        &HOST_CALLS,
        &TRAPS,
        &LIMITS,
        &BREAKER,
        &SWAPS,
        &LOADS,
        &MEMORY,
    ],
};

/// Adds the metrics of components.
pub(super) fn add(core: &Core, families: &mut MetricFamilies) {
    let instances = core.sandbox.instances();
    let states = [("running", instances.running), ("idle", instances.idle)];
    families.add(&INSTANCES, states.map(|(state, count)| INSTANCES.series([state], count)));
    families.add(&WAITING, [WAITING.series([], instances.waiting)]);
    let swaps = core.sandbox.swaps.read().into_iter();
    families.add(&SWAPS, swaps.map(|(outcome, count)| SWAPS.series([outcome.word()], count)));
    let loads = core.sandbox.code_loads.read().into_iter();
    families.add(&LOADS, loads.map(|(source, count)| LOADS.series([source.word()], count)));
    for mount in core.mounts.all() {
        add_mount(core, &mount, families);
    }
}

fn add_mount(core: &Core, mount: &Mount, families: &mut MetricFamilies) {
    let path = mount.record.path.as_str();
    let calls = mount.compartment.host_calls();
    families.add(&HOST_CALLS, (calls > 0).then(|| HOST_CALLS.series([path], calls)));
    let traps = mount.compartment.traps().into_iter();
    let traps = traps.map(|trap| TRAPS.series([path, &trap.plugin, &trap.version], trap.count));
    families.add(&TRAPS, traps);
    let limits = mount.compartment.reached_limits().into_iter();
    families.add(&LIMITS, limits.map(|(limit, count)| LIMITS.series([path, limit], count)));
    families.add(&BREAKER, mount.rests_after_crashes().then(|| BREAKER.series([path], 1)));
    let bytes = core.sandbox.memory_of(&mount.compartment);
    families.add(&MEMORY, (bytes > 0).then(|| MEMORY.series([path], bytes)));
}
