//! Tests of admission without a pool: slots are only numbers.

use super::*;
use crate::limits::MountLimits;
use std::collections::BTreeMap;

fn mount(name: &str) -> Arc<Compartment> {
    Compartment::new(name, MountLimits::default())
}

fn wanted(compartment: &Arc<Compartment>, slots: u32, priority: CallPriority) -> SlotRequest<'_> {
    SlotRequest { compartment, slots, priority, caller: None, deadline: Instant::now() }
}

/// Makes a request of the client with this last byte in its address.
fn request_of(
    all: &Arc<InstanceSlots>,
    compartment: &Arc<Compartment>,
    last: u8,
) -> AdmissionOutcome {
    let caller = Some(Client::of([192, 0, 2, last].into()));
    all.enter(&SlotRequest { caller, ..wanted(compartment, 1, CallPriority::Foreground) })
}

fn request(
    all: &Arc<InstanceSlots>,
    compartment: &Arc<Compartment>,
    slots: u32,
) -> AdmissionOutcome {
    all.enter(&wanted(compartment, slots, CallPriority::Foreground))
}

fn admitted(entered: AdmissionOutcome) -> SlotPermit {
    match entered {
        AdmissionOutcome::Admitted(admission) => admission,
        _ => panic!("the call was not admitted at once"),
    }
}

fn waiting(entered: AdmissionOutcome) -> oneshot::Receiver<SlotPermit> {
    match entered {
        AdmissionOutcome::Waits { admission, .. } => admission,
        _ => panic!("the call was admitted, and should be refused"),
    }
}

/// Takes all slots that requests may have, for mounts that no test uses otherwise.
fn fill(all: &Arc<InstanceSlots>) -> Vec<SlotPermit> {
    let other_mount = |n: u32| mount(&format!("stranger {n}"));
    (0..limits::INSTANCES - limits::BACKGROUND_SLOTS)
        .map(|n| admitted(request(all, &other_mount(n), 1)))
        .collect()
}

#[test]
fn thousand_waiting_calls_do_not_delay_other_mount() {
    let all = InstanceSlots::new(limits::INSTANCES);
    let mut admissions = fill(&all);
    let (greedy, modest) = (mount("greedy"), mount("modest"));
    let mut first: Vec<_> = (0..1_000).map(|_| waiting(request(&all, &greedy, 1))).collect();
    let mut second = waiting(request(&all, &modest, 1));
    admissions.truncate(admissions.len() - 2);
    let served = (first[0].try_recv(), second.try_recv());
    assert!(served.0.is_ok(), "the first call is served first");
    assert!(served.1.is_ok(), "the other mount is served next");
    assert!(first[1].try_recv().is_err());
}

#[test]
fn mount_requests_stay_within_share_and_others_pass() {
    let all = InstanceSlots::new(limits::INSTANCES);
    let (greedy, modest) = (mount("greedy"), mount("modest"));
    let most = MountLimits::default().concurrency;
    let mut admissions: Vec<_> = (0..most).map(|_| admitted(request(&all, &greedy, 1))).collect();
    let mut next = match request(&all, &greedy, 1) {
        AdmissionOutcome::Waits { admission, lacks_room } => {
            assert!(!lacks_room, "no mount is refused in favour of a mount with its share");
            admission
        }
        _ => panic!("a mount with its share was not refused"),
    };
    let mut other = waiting(request(&all, &modest, 1));
    assert!(other.try_recv().is_ok(), "the other mount was admitted at once");
    assert!(next.try_recv().is_err());
    admissions.pop();
    assert!(next.try_recv().is_ok());
    let wider = greedy.with_limits(MountLimits { concurrency: most + 1, ..MountLimits::default() });
    assert!(matches!(
        request(&all, &wider, 1),
        AdmissionOutcome::Admitted(_) | AdmissionOutcome::Waits { .. }
    ));
}

#[test]
fn share_of_one_slot_serves_call_needing_two() {
    let all = InstanceSlots::new(limits::INSTANCES);
    let narrow =
        Compartment::new("narrow", MountLimits { concurrency: 1, ..MountLimits::default() });
    let first = admitted(request(&all, &narrow, 2));
    let mut second = waiting(request(&all, &narrow, 2));
    drop(first);
    assert!(second.try_recv().is_ok());
}

#[test]
fn due_work_runs_while_request_slots_are_full() {
    let all = InstanceSlots::new(limits::INSTANCES);
    let _held = fill(&all);
    let mount = mount("mount");
    let mut waits = waiting(request(&all, &mount, 1));
    let work: Vec<_> = (0..limits::BACKGROUND_SLOTS / 2)
        .map(|_| admitted(all.enter(&wanted(&mount, 2, CallPriority::Background))))
        .collect();
    drop(work);
    assert!(waits.try_recv().is_err(), "slots of due work are not given to requests");
    assert!(all.enter_idle().is_none());
}

#[test]
fn double_slot_call_is_not_starved_by_singles() {
    let all = InstanceSlots::new(limits::INSTANCES);
    let mut admissions = fill(&all);
    let (nested, plain) = (mount("nested"), mount("plain"));
    let mut two = waiting(request(&all, &nested, 2));
    let mut one = waiting(request(&all, &plain, 1));
    admissions.pop();
    assert!(two.try_recv().is_err() && one.try_recv().is_err(), "the one slot is kept for it");
    admissions.pop();
    assert!(two.try_recv().is_ok());
    admissions.pop();
    assert!(one.try_recv().is_ok());
}

#[test]
fn a_cancelled_waiter_gives_back_its_slot() {
    let all = InstanceSlots::new(limits::INSTANCES);
    let mut admissions = fill(&all);
    let mount = mount("mount");
    drop(waiting(request(&all, &mount, 1)));
    let waiter = waiting(request(&all, &mount, 1));
    let mut last = waiting(request(&all, &mount, 1));
    admissions.pop();
    drop(waiter);
    assert!(last.try_recv().is_ok());
    drop(admissions);
    assert_eq!(all.free(), limits::INSTANCES as usize);
    assert_eq!(mount.taken().slots(), 0);
}

#[test]
fn waiting_calls_of_mount_are_bounded() {
    let all = InstanceSlots::new(limits::INSTANCES);
    let _held = fill(&all);
    let (crowded, other) = (mount("crowded"), mount("other"));
    let mut queue: Vec<_> =
        (0..limits::WAITING_CALLS).map(|_| waiting(request(&all, &crowded, 1))).collect();
    assert!(matches!(request(&all, &crowded, 1), AdmissionOutcome::Crowded));
    waiting(request(&all, &other, 1));
    queue.pop();
    waiting(request(&all, &crowded, 1));
}

#[test]
fn full_queue_of_client_leaves_other_served_next() {
    let all = InstanceSlots::new(limits::INSTANCES);
    let mut admissions = fill(&all);
    let mount = mount("mount");
    let mut greedy: Vec<_> =
        (0..limits::WAITING_CALLS).map(|_| waiting(request_of(&all, &mount, 1))).collect();
    assert!(matches!(request_of(&all, &mount, 1), AdmissionOutcome::Crowded));
    let mut modest = waiting(request_of(&all, &mount, 2));
    let made_room = greedy.pop().map(|mut last| last.try_recv());
    assert_eq!(
        made_room.map(|answer| answer.err()),
        Some(Some(oneshot::error::TryRecvError::Closed))
    );
    admissions.pop();
    let first = greedy[0].try_recv();
    assert!(first.is_ok() && modest.try_recv().is_err());
    admissions.pop();
    assert!(modest.try_recv().is_ok(), "after one call of the other client");
}

#[test]
fn places_go_round_by_mount() {
    let all = InstanceSlots::new(limits::INSTANCES);
    let admissions = fill(&all);
    let mounts: Vec<_> = (0..4).map(|n| mount(&n.to_string())).collect();
    let mut queues: Vec<_> = mounts
        .iter()
        .map(|mount| (0..40).map(|_| waiting(request(&all, mount, 1))).collect::<Vec<_>>())
        .collect();
    let mut counts = BTreeMap::new();
    let mut served_admissions = Vec::new();
    for (round, admission) in admissions.into_iter().take(40).enumerate() {
        drop(admission);
        for (number, queue) in queues.iter_mut().enumerate() {
            let served = queue.iter_mut().filter_map(|admission| admission.try_recv().ok());
            for admission in served.collect::<Vec<_>>() {
                served_admissions.push(admission);
                *counts.entry(number).or_insert(0) += 1;
            }
        }
        let (least, most) = (counts.values().min(), counts.values().max());
        assert!(round < 4 || most.unwrap() - least.unwrap() <= 1, "{counts:?}");
    }
}
