//! What must hold inside the tree after every call: the maps agree with the nodes, virtual time never goes back.

use alloc::collections::BTreeMap;

use forebay_units::{Bytes, ClassId, Direction, Nanos, Timestamp};

use super::node::{Name, Node, NodeIndex, State};
use super::tree::{ROOT, Tree};
use super::*;

impl Tree {
    fn all(&self) -> impl Iterator<Item = NodeIndex> + '_ {
        self.names.iter().map(|(_, node)| node).chain([ROOT])
    }

    fn is_queued(&self, node: NodeIndex) -> bool {
        self.nodes[node].state == State::Queued
    }

    fn check(&self) {
        let (mut asleep, mut due, mut standing, mut loose) = (0, 0, 0, 0);
        for at in self.all() {
            let node = &self.nodes[at];
            let is_queued = self.is_queued(at);
            due += usize::from(node.due.is_some());
            asleep += usize::from(match node.state {
                State::Held { .. } => node.is_class(),
                State::Throttled { .. } => true,
                State::Away | State::Queued => false,
            });
            standing += usize::from(node.stands.is_some());
            loose += usize::from(node.is_loose);
            self.check_place(at);
            if node.is_class() {
                assert_eq!(node.state == State::Away, node.family.ready == 0, "{:?}", node.name);
                continue;
            }
            let children =
                || self.all().filter(|child| *child != ROOT && self.nodes[*child].parent == at);
            assert_eq!(children().count(), node.family.children as usize, "{:?}", node.name);
            let in_order = children().filter(|child| self.is_queued(*child)).count();
            assert_eq!(in_order, node.family.queued as usize, "{:?}", node.name);
            let sum = |of: fn(&super::node::Family) -> u32| -> u32 {
                children().map(|child| of(&self.nodes[child].family)).sum()
            };
            assert_eq!(sum(|family| family.ready), node.family.ready, "{:?}", node.name);
            assert_eq!(sum(|family| family.in_flight), node.family.in_flight, "{:?}", node.name);
            let first = children().filter_map(|child| self.nodes[child].due).min();
            assert_eq!(first, self.first_due(at).map(|(at, _)| at), "{:?}", node.name);
            if at != ROOT && !matches!(node.state, State::Throttled { .. }) {
                assert_eq!(is_queued, in_order > 0, "{:?}", node.name);
            }
            if is_queued {
                assert_eq!(node.due, first, "{:?}", node.name);
            }
        }
        let counts = [standing, loose, asleep, due];
        assert_eq!(self.counts(), counts, "order, loose, sleepers, reservations");
    }
}

#[test]
fn a_class_takes_little_memory() {
    // Besides it stands in at most four maps, with less than 80 bytes each.
    assert!(size_of::<Node>() <= 640, "{}", size_of::<Node>());
}

struct Random(u64);

impl Random {
    fn below(&mut self, below: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }
}

fn share(random: &mut Random) -> ClassShare {
    let limit = |random: &mut Random| {
        (random.below(3) == 0)
            .then(|| Rate { per_second: 1 + random.below(1 << 24), burst: random.below(1 << 16) })
    };
    let share = Share {
        weight: 1 + random.below(9) as u32,
        ops: limit(random),
        bytes: limit(random),
        cost: None,
        at_limit: if random.below(2) == 0 { AtLimit::Wait } else { AtLimit::Borrow },
    };
    let group = [None, Some(GroupId(0)), Some(GroupId(1))][random.below(3) as usize];
    ClassShare { share, reservation: random.below(2) * random.below(1 << 24), group }
}

fn discipline(random: &mut Random) -> Discipline {
    let idle = [WindowIdle::Strict, WindowIdle::LendAfter(Nanos(500))][random.below(2) as usize];
    let start = Timestamp(0);
    let twins = TwinsSettings { window: Nanos(7_000), targets: 3, shift: 1, start, idle };
    let window = Nanos::micros(1 + random.below(30));
    let sw = SwSettings { window, start: Timestamp(500), is_strict: random.below(2) == 0 };
    let all = [Discipline::Sfq, Discipline::Drr, Discipline::Twins(twins), Discipline::Sw(sw)];
    all[random.below(4) as usize]
}

/// Does something with one of eight classes; what was picked is charged.
fn act(
    shares: &mut Shares,
    random: &mut Random,
    now: Timestamp,
    in_flight: &mut [u32],
) -> Option<Pick> {
    let index = random.below(8) as usize;
    let class = ClassId(index as u32);
    let bytes = Bytes(random.below(1 << 20));
    let work = Work { direction: Direction::Read, requests: 1, bytes };
    match random.below(20) {
        0..6 => shares.ready(now, class),
        6 => shares.empty(now, class),
        7 => shares.hold(now, class, now + Nanos(1 + random.below(50_000))),
        8..14 => {
            let pick = shares.pick(now);
            if let Pick::Class(class) = pick {
                shares.charge(now, class, work);
                in_flight[class.0 as usize] += 1;
                if random.below(2) == 0 {
                    shares.empty(now, class);
                }
            }
            return Some(pick);
        }
        14 => {
            shares.charge(now, class, work);
            in_flight[index] += 1;
        }
        15 if in_flight[index] > 0 => {
            in_flight[index] -= 1;
            shares.complete(now, class, 1);
        }
        16 => {
            let actual = Work { bytes: Bytes(random.below(1 << 20)), ..work };
            shares.amend(now, class, work, actual);
        }
        17 => shares.configure(now, class, share(random)).expect("it is in range"),
        18 => shares.front(class, Timestamp(now.0.saturating_sub(random.below(90_000)))),
        19 if random.below(8) == 0 => _ = shares.remove(now, class),
        _ => {}
    }
    None
}

#[test]
fn standing_too_early_changes_no_turn() {
    let mut turns = 0;
    for seed in 0..100 {
        let mut random = Random(seed);
        let settings = SharingSettings {
            discipline: discipline(&mut random),
            quantum: 1 + random.below(1 << 20),
            ..SharingSettings::default()
        };
        // At most so many nodes stand too early: none, as few as make others wait, and as usual.
        let mut all = [Some(0), Some(2), None].map(|loose_max| {
            let mut shares = Shares::new(settings);
            if let Some(loose_max) = loose_max {
                shares.tree_mut().limit_loose(loose_max);
            }
            (shares, Random(random.0), alloc::vec![0u32; 8])
        });
        let mut now = Timestamp(0);
        for step in 0..400 {
            now = now + Nanos(random.below(5_000));
            let picks = all.each_mut().map(|(shares, random, in_flight)| {
                let pick = act(shares, random, now, in_flight);
                shares.tree().check();
                pick
            });
            turns += usize::from(matches!(picks[0], Some(Pick::Class(_))));
            assert!(picks.iter().all(|pick| *pick == picks[0]), "{seed}, {step}: {picks:?}");
        }
    }
    assert!(turns > 5_000, "{turns} turns");
}

#[test]
fn the_maps_agree_and_virtual_time_never_goes_back() {
    for seed in 0..150 {
        let mut random = Random(seed);
        let settings = SharingSettings {
            discipline: discipline(&mut random),
            quantum: 1 + random.below(1 << 20),
            capacity: Some(1 << 24),
            ..SharingSettings::default()
        };
        let mut shares = Shares::new(settings);
        let mut times: BTreeMap<Name, u128> = BTreeMap::new();
        let mut in_flight = alloc::vec![0u32; 8];
        let mut now = Timestamp(0);
        for _ in 0..300 {
            now = now + Nanos(random.below(20_000));
            let index = random.below(8) as usize;
            let class = ClassId(index as u32);
            let work = Work {
                direction: Direction::Read,
                requests: 1,
                bytes: Bytes(random.below(1 << 20)),
            };
            match random.below(16) {
                0..3 => {
                    let before = shares.tree().names.get(Name::Class(class));
                    let was_away =
                        before.is_none_or(|node| shares.tree().nodes[node].state == State::Away);
                    shares.ready(now, class);
                    let tree = shares.tree();
                    let node =
                        &tree.nodes[tree.names.get(Name::Class(class)).expect("it is ready")];
                    let virtual_time = tree.nodes[node.parent].family.virtual_time;
                    // Windows of arrival have no virtual time.
                    let is_sw = shares.settings().discipline.sw().is_some();
                    let has_credit = was_away && !is_sw && node.turn.tag < virtual_time;
                    assert!(!has_credit, "no credit for an absence");
                    if random.below(3) == 0 {
                        shares.front(class, Timestamp(now.0.saturating_sub(random.below(90_000))));
                    }
                }
                3 => shares.empty(now, class),
                4 => shares.hold(now, class, now + Nanos(1 + random.below(50_000))),
                5..9 => {
                    if let Pick::Class(class) = shares.pick(now) {
                        shares.charge(now, class, work);
                        in_flight[class.0 as usize] += 1;
                    }
                }
                9 => {
                    shares.charge(now, class, work);
                    in_flight[index] += 1;
                }
                10..12 if in_flight[index] > 0 => {
                    in_flight[index] -= 1;
                    shares.complete(now, class, 1);
                }
                12 => shares.amend(
                    now,
                    class,
                    work,
                    Work { bytes: Bytes(random.below(1 << 20)), ..work },
                ),
                13 => shares.configure(now, class, share(&mut random)).expect("it is in range"),
                14 => {
                    let group = GroupId(random.below(2) as u32);
                    shares
                        .configure_group(now, group, share(&mut random).share)
                        .expect("it is in range");
                }
                15 => {
                    shares.remove(now, class);
                    shares.remove_group(now, GroupId(random.below(2) as u32));
                }
                _ => {}
            }
            shares.tree().check();
            for node in shares.tree().all() {
                let node = &shares.tree().nodes[node];
                let before = times.insert(node.name, node.family.virtual_time);
                let is_new = node.stats == ShareStats::default() && node.name != Name::Root;
                assert!(
                    is_new || before.is_none_or(|before| before <= node.family.virtual_time),
                    "{:?}",
                    node.name
                );
            }
            if random.below(60) == 0 {
                shares.switch(
                    now,
                    SharingSettings { discipline: discipline(&mut random), ..settings },
                );
                shares.tree().check();
                times.clear();
            }
        }
    }
}

#[test]
fn a_reservation_is_overdue_while_its_class_wants_and_gets_nothing() {
    let mut shares = Shares::new(SharingSettings::default());
    let (class, other) = (ClassId(1), ClassId(2));
    let reserved = ClassShare { reservation: 1 << 20, ..ClassShare::default() };
    shares.configure(Timestamp(0), class, reserved).expect("it is possible");
    let at = |ms: u64| Timestamp(ms * 1_000_000);
    assert_eq!(shares.overdue(at(500)), Nanos::ZERO, "it wants nothing");
    shares.ready(at(500), class);
    shares.ready(at(500), other);
    assert_eq!(shares.overdue(at(500)), Nanos::ZERO);
    assert_eq!(shares.overdue(at(700)), Nanos::millis(200));
    assert_eq!(shares.pick(at(700)), Pick::Class(class), "whoever is due goes first");
    let work = Work { direction: Direction::Read, requests: 1, bytes: Bytes::mib(1) };
    shares.charge(at(700), class, work);
    assert_eq!(shares.overdue(at(700)), Nanos::ZERO, "it has had a second's worth");
    shares.empty(at(900), class);
    assert_eq!(shares.overdue(at(9000)), Nanos::ZERO);
}
