//! The faults of a run, chosen at random: nodes are killed, stopped and paused, their clocks jump,
//! their connections to the database stall and break, and the primary of the database dies.

use super::group::{GroupNode, NODES, NodeGroup};
use super::journal::Journal;
use crate::stage::thorough;
use bulkhead_tests::DatabaseProxy;
use bulkhead_tests::database_proxy::{CutPlace, Direction, MessageChoice};
use bulkhead_tests::disk::SeededRandom;
use std::thread;
use std::time::{Duration, Instant};

/// Shortest and longest duration of a fault, in milliseconds.
const HOLD: [usize; 2] = [300, 3_000];

/// Longest pause between two faults, in milliseconds.
const PAUSE: usize = 1_500;

/// Duration of a long fault: another node ends the claim of a node that is gone for so long. In
/// `make fault`, one fault in [`LONG_SHARE`] is long.
const LONG: Duration = Duration::from_secs(25);
const LONG_SHARE: usize = 12;

/// Jumps of a node's clock, in seconds.
const JUMPS: [i64; 4] = [-7_200, -45, 30, 7_200];

/// A fault of one node.
#[derive(Clone, Copy, Debug)]
enum NodeFault {
    Kill,
    Stop,
    Pause,
    ClockJump(i64),
    Stall(Direction),
    Reset,
    Refuse,
    Delay(u64),
    Cut(CutPlace),
}

impl NodeFault {
    fn choose(random: &mut SeededRandom) -> Self {
        match random.below(12) {
            0 | 1 => Self::Kill,
            2 => Self::Stop,
            3 | 4 => Self::Pause,
            5 => Self::ClockJump(JUMPS[random.below(JUMPS.len())]),
            6 => Self::Stall(Direction::ToServer),
            7 => Self::Stall(Direction::ToClient),
            8 => Self::Reset,
            9 => Self::Refuse,
            10 => Self::Delay(20 + number(random.below(180))),
            _ if random.below(2) == 0 => Self::Cut(CutPlace::Before),
            _ => Self::Cut(CutPlace::After),
        }
    }

    fn begin(self, node: &GroupNode) {
        match self {
            Self::Kill => node.end(false),
            Self::Stop => node.end(true),
            Self::Pause => node.server().signal("STOP"),
            Self::ClockJump(seconds) => node.jump(seconds),
            Self::Stall(direction) => node.proxy.stall(direction),
            Self::Reset => node.proxy.reset_all(),
            Self::Refuse => {
                node.proxy.refuse();
                node.proxy.close_all();
            }
            Self::Delay(milliseconds) => node.proxy.delay(Duration::from_millis(milliseconds)),
            Self::Cut(place) => node.proxy.cut(MessageChoice::Query("COMMIT"), place),
        }
    }

    fn end(self, group: &NodeGroup, index: usize) {
        let node = &group.nodes[index];
        match self {
            Self::Kill | Self::Stop => group.start_node(index),
            Self::Pause => node.server().signal("CONT"),
            Self::ClockJump(_) => node.jump(0),
            Self::Stall(_) | Self::Refuse | Self::Delay(_) => node.proxy.heal(),
            Self::Reset => node.proxy.reset_all(),
            Self::Cut(_) => drop(node.proxy.pass_all()),
        }
    }
}

/// A fault between all nodes and the target of the database engine.
#[derive(Clone, Copy, Debug)]
enum TargetFault {
    Reset,
    Stall,
    Refuse,
    /// Cuts the connection at the message with this number.
    Cut(u32),
}

impl TargetFault {
    fn choose(random: &mut SeededRandom) -> Self {
        match random.below(4) {
            0 => Self::Reset,
            1 => Self::Stall,
            2 => Self::Refuse,
            _ => Self::Cut(1 + u32::try_from(random.below(40)).expect("a small number")),
        }
    }

    fn begin(self, proxy: &DatabaseProxy) {
        match self {
            Self::Reset => proxy.reset_all(),
            Self::Stall => proxy.stall(Direction::ToClient),
            Self::Refuse => {
                proxy.refuse();
                proxy.close_all();
            }
            Self::Cut(number) => proxy.cut(MessageChoice::Number(number), CutPlace::After),
        }
    }
}

/// The source of the faults.
pub struct Nemesis<'a> {
    pub group: &'a NodeGroup,
    pub journal: &'a Journal,
    pub random: SeededRandom,
}

impl Nemesis<'_> {
    /// Causes faults for `length`. In the middle, the standby becomes the primary. At the end,
    /// every node runs, and no fault is left.
    pub fn rage(&mut self, length: Duration) {
        let begin = Instant::now();
        let mut has_failed_over = false;
        while begin.elapsed() < length {
            thread::sleep(Duration::from_millis(number(self.random.below(PAUSE))));
            if !has_failed_over && begin.elapsed() > length / 2 {
                has_failed_over = true;
                self.fail_over();
                continue;
            }
            match self.random.below(8) {
                0 => self.rotate_key(),
                1 => self.break_target(),
                _ => self.break_nodes(),
            }
        }
    }

    fn fail_over(&self) {
        self.journal.fault("the primary is killed");
        self.group.fail_over();
        self.journal.note("the standby is the primary");
    }

    /// Rotates the key of the data on a random node.
    fn rotate_key(&mut self) {
        let roots = self.group.roots();
        let root = &roots[self.random.below(roots.len())];
        let outcome = root.attempt("POST", "sys/rotate", b"{}").map(|answer| answer.status);
        self.journal.fault(&format!("the key is rotated: {outcome:?}"));
    }

    /// Breaks the connections to the target of the database engine, and repairs them.
    fn break_target(&mut self) {
        let proxy = &self.group.target_proxy;
        let fault = TargetFault::choose(&mut self.random);
        let hold = self.duration();
        self.journal.fault(&format!("target {fault:?} for {hold:?}"));
        fault.begin(proxy);
        thread::sleep(hold);
        proxy.heal();
        proxy.pass_all();
        self.journal.note("the target is repaired");
    }

    /// Breaks one node, or two at the same time, and repairs both.
    fn break_nodes(&mut self) {
        let first = self.random.below(NODES);
        let count = 1 + usize::from(self.random.below(3) == 0);
        let faults: Vec<_> = (0..count)
            .map(|number| ((first + number) % NODES, NodeFault::choose(&mut self.random)))
            .collect();
        let hold = self.duration();
        for (index, fault) in &faults {
            self.journal.fault(&format!("node {} {fault:?} for {hold:?}", index + 1));
            fault.begin(&self.group.nodes[*index]);
        }
        thread::sleep(hold);
        // A start takes seconds, and must not prolong the other fault.
        let (starts, others): (Vec<_>, Vec<_>) = faults
            .iter()
            .partition(|(_, fault)| matches!(fault, NodeFault::Kill | NodeFault::Stop));
        for (index, fault) in others.into_iter().chain(starts) {
            fault.end(self.group, index);
            self.journal.note(&format!("node {} is repaired", index + 1));
        }
    }

    fn duration(&mut self) -> Duration {
        if thorough() && self.random.below(LONG_SHARE) == 0 {
            return LONG;
        }
        let [shortest, longest] = HOLD;
        Duration::from_millis(number(shortest + self.random.below(longest - shortest)))
    }
}

fn number(number: usize) -> u64 {
    u64::try_from(number).expect("a small number")
}
