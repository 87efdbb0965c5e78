//! Users above jobs: every level keeps the bound of its discipline.

use forebay_sched::sharing::{ClassShare, Discipline, GroupId, Share, Shares, SharingSettings};
use forebay_units::{ClassId, Nanos, Timestamp};
use proptest::prelude::*;

use crate::bed::{Bed, Event, Service, Sizes, Source, What, bytes_of, one_batch_each, unfairness};
use crate::sfq::settings;

/// Users with weights, each with jobs (batch sizes, pauses, weights).
type Users = Vec<(u64, Vec<(u64, Option<(u64, u64)>, u64)>)>;

fn users() -> impl Strategy<Value = Users> {
    let spells = prop_oneof![Just(None), (1u64..20, 0u64..400_000).prop_map(Some)];
    let jobs = prop::collection::vec((1u64..300_000, spells, 1u64..20), 1..4);
    prop::collection::vec((1u64..20, jobs), 2..4).prop_map(|mut users| {
        // The first job of each user always wants something, so each user does.
        users.iter_mut().for_each(|(_, jobs)| jobs[0].1 = None);
        users
    })
}

fn tree(settings: SharingSettings, users: &Users) -> (Shares, Vec<Source>, Vec<usize>) {
    let mut shares = Shares::new(settings);
    let (mut sources, mut user_of) = (Vec::new(), Vec::new());
    let share = |weight: u64| Share { weight: weight as u32, ..Share::default() };
    for (user, (weight, jobs)) in users.iter().enumerate() {
        let group = GroupId(user as u32);
        shares.configure_group(Timestamp(0), group, share(*weight)).expect("it is in range");
        for (size, spells, weight) in jobs {
            let class = ClassId(sources.len() as u32);
            let share = ClassShare { share: share(*weight), reservation: 0, group: Some(group) };
            shares.configure(Timestamp(0), class, share).expect("it is in range");
            sources.push(Source { sizes: Sizes::Between(1, *size), spells: *spells });
            user_of.push(user);
        }
    }
    (shares, sources, user_of)
}

/// The log as it looks from above: whose job it was.
fn by_user(log: &[Event], user_of: &[usize]) -> Vec<Event> {
    let start = (0..=*user_of.iter().max().expect("some")).map(|class| Event {
        at: 0,
        class,
        what: What::Ready,
    });
    let dispatched = log.iter().filter(|event| matches!(event.what, What::Dispatched(_)));
    start.chain(dispatched.map(|event| Event { class: user_of[event.class], ..*event })).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(80))]

    #[test]
    fn each_level_is_fair(
        users in users(), depth in 1usize..9, seed: u64,
        quantum in prop_oneof![Just(None), (1u64..1_000_000).prop_map(Some)],
    ) {
        let how = match quantum {
            None => settings(Discipline::Sfq),
            Some(quantum) => SharingSettings { quantum, ..settings(Discipline::Drr) },
        };
        let (mut shares, sources, user_of) = tree(how, &users);
        let log = Bed::new(sources.clone(), depth, seed).run(&mut shares, 500, Nanos::secs(1_000));
        let turn = |weights: [u64; 2]| {
            quantum.map_or(1, |quantum| i128::from(quantum) * i128::from(weights[0]) * i128::from(weights[1]))
        };
        let largest = |user: usize| users[user].1.iter().map(|(size, _, _)| *size).max().expect("a job");
        let above = by_user(&log, &user_of);
        for (f, g) in (0..users.len()).flat_map(|f| (0..f).map(move |g| (f, g))) {
            let weights = [users[f].0, users[g].0];
            let bound = one_batch_each([largest(f), largest(g)], weights) + turn(weights);
            let worst = unfairness(&above, [f, g], weights, Service::Dispatched);
            prop_assert!(worst <= bound, "users: {worst} of {bound}");
        }
        let weights: Vec<u64> = users.iter().flat_map(|(_, jobs)| jobs.iter().map(|job| job.2)).collect();
        for (f, g) in (0..sources.len()).flat_map(|f| (0..f).map(move |g| (f, g))) {
            if user_of[f] == user_of[g] {
                let sizes = [sources[f].sizes.max(), sources[g].sizes.max()];
                let weights = [weights[f], weights[g]];
                let bound = one_batch_each(sizes, weights) + turn(weights);
                let worst = unfairness(&log, [f, g], weights, Service::Dispatched);
                prop_assert!(worst <= bound, "jobs: {worst} of {bound}");
            }
        }
    }
}

#[test]
fn a_user_with_many_jobs_has_no_more_than_one_with_one() {
    let job = |size| (size, None, 1);
    let users = vec![(1, vec![job(50_000); 100]), (1, vec![job(200_000)])];
    for discipline in [Discipline::Sfq, Discipline::Drr] {
        let (mut shares, sources, _) = tree(settings(discipline), &users);
        let log = Bed::new(sources, 4, 1).run(&mut shares, 20_000, Nanos::secs(1_000));
        let many: u64 = (0..100).map(|class| bytes_of(&log, class)).sum();
        let ratio = many as f64 / bytes_of(&log, 100) as f64;
        assert!((0.98..=1.02).contains(&ratio), "{discipline:?}: {ratio}");
        let fewest = (0..100).map(|class| bytes_of(&log, class)).min().expect("some");
        let most = (0..100).map(|class| bytes_of(&log, class)).max().expect("some");
        let slack = 100_000 + if discipline == Discipline::Drr { 1 << 20 } else { 0 };
        assert!(most - fewest <= slack, "{discipline:?}: jobs of one user: {fewest} to {most}");
    }
}

#[test]
fn flat_weights_do_give_more_jobs_more() {
    // What the groups are for: without them the same jobs share a hundred to one.
    let mut shares = Shares::new(settings(Discipline::Sfq));
    let source = |size| Source { sizes: Sizes::Between(1, size), spells: None };
    let sources: Vec<Source> = (0..100).map(|_| source(50_000)).chain([source(200_000)]).collect();
    let log = Bed::new(sources, 4, 1).run(&mut shares, 20_000, Nanos::secs(1_000));
    let many: u64 = (0..100).map(|class| bytes_of(&log, class)).sum();
    assert!(many > 80 * bytes_of(&log, 100), "{many}");
}

#[test]
fn a_class_that_moves_to_another_group_takes_its_debt_along() {
    let mut shares = Shares::new(settings(Discipline::Sfq));
    let inside = |group| ClassShare { group: Some(GroupId(group)), ..ClassShare::default() };
    for (class, group) in [(0, 1), (1, 1), (2, 2)] {
        shares.configure(Timestamp(0), ClassId(class), inside(group)).expect("it is in range");
        shares.ready(Timestamp(0), ClassId(class));
    }
    // Class 0 has had ten batches that class 1 has not.
    for _ in 0..10 {
        shares.charge(Timestamp(0), ClassId(0), crate::bed::read(1_000));
    }
    shares.configure(Timestamp(0), ClassId(0), inside(2)).expect("it is in range");
    let mut had = [0; 3];
    while had[0] == 0 {
        let forebay_sched::sharing::Pick::Class(class) = shares.pick(Timestamp(0)) else {
            panic!("all are ready")
        };
        shares.charge(Timestamp(0), class, crate::bed::read(1_000));
        had[class.0 as usize] += 1;
    }
    assert!((9..=11).contains(&had[2]), "{had:?}");
}
