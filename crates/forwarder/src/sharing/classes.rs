//! Who is which class: from what the kernel or the client says of itself to a small number that the
//! scheduler shares by.
//!
//! ```text
//!  SO_PEERCRED, hello ─► Identity (user, job) ─► ClassId ─┬─► share: weight, limits  (settings by name)
//!                                                          └─► group: the user, above its jobs
//! ```
//!
//! Over a Unix socket the user is the kernel's word. Over TCP it is the client's own, as the job is
//! everywhere: whoever may connect can claim to be anybody, and is believed.
//!
//! There is room for `sharing.class_count_max` classes. When it is full, the class that has been
//! without a connection for the longest time gives up its place, unless requests of it are still on
//! their way: what is known of a class goes with its place, so nobody who has something loses one.
//! When all are in use, the further jobs of a user share one class, `USER/-`, below that user; there
//! is room for as many of those. Only then do newcomers share one class for all, named `other`,
//! which has the settings of that name. So no number of jobs brings a user past the user's limits,
//! or another user into `other`. A class that comes back after it gave up its place is a new one.

use std::collections::HashMap;

use forebay_sched::OTHER_CLASS;
use forebay_sched::sharing::{AtLimit, ClassShare, GroupId, Rate, Share};
use forebay_units::ClassId;

use crate::settings::class::{self, Ceiling, ClassSettings};
use crate::settings::{self, Level, Settings};

/// The class of everybody where nothing is shared.
const ALL: ClassId = ClassId(0);

/// The bit that numbers have which are made of names, and others do not.
const BY_NAME: u32 = 1 << 31;

/// A number below [`BY_NAME`] made of a name, the same everywhere (FNV-1a, Fowler, Noll and Vo).
fn folded(name: &str) -> u32 {
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    ((hash ^ hash >> 32) as u32) & !BY_NAME
}

/// How work outside of any job is named.
const NO_JOB: &str = "-";

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Identity {
    user: u32,
    job: String,
}

impl Identity {
    /// A user's job as it was told; what cannot be shown is replaced.
    pub(crate) fn new(user: u32, job: &[u8]) -> Self {
        let job = String::from_utf8_lossy(job).replace(char::is_control, "?");
        let job = if job.is_empty() { NO_JOB.to_owned() } else { job };
        Self { user, job }
    }
}

struct Class {
    identity: Identity,
    connections_count: u32,
    /// Beyond `max`: a user's, for jobs that have no place.
    is_spare: bool,
    /// When its last connection went, counted in departures.
    left: u64,
}

/// Every class that is told apart now.
pub(crate) struct Classes {
    level: Level,
    max: usize,
    /// Data servers, which are the classes where they share, and have no connections.
    targets: u32,
    settings: settings::Classes,
    classes: HashMap<ClassId, Class>,
    known: HashMap<Identity, ClassId>,
    /// Numbers are not used again.
    next: u32,
    /// Whether a newcomer's number is made of its name.
    is_numbered_by_name: bool,
    departures: u64,
}

/// What has to be told to the scheduler about a class.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) class: ClassId,
    pub(crate) share: ClassShare,
    /// The order within it; the scheduler's own if `None`.
    pub(crate) policy: Option<String>,
    /// It, or its user, waits at a limit whoever else is there.
    pub(crate) waits_at_limit: bool,
}

impl Told {
    /// About a class that is below no user.
    fn alone(class: ClassId, settings: &ClassSettings) -> Self {
        Self {
            class,
            waits_at_limit: waits_at_limit(settings),
            share: class_share(settings, None),
            policy: settings.policy.clone(),
        }
    }
}

/// What comes of somebody connecting.
pub(crate) struct Entered {
    pub(crate) class: ClassId,
    /// What to tell about it, and its name, if it is new.
    pub(crate) new: Option<(Told, String)>,
    /// Who gave up its place.
    pub(crate) gone: Option<ClassId>,
}

impl Classes {
    pub(crate) fn new(settings: &Settings) -> Self {
        let sharing = &settings.sharing;
        Self {
            level: sharing.level,
            max: sharing.class_count_max as usize,
            targets: settings.store.targets,
            settings: settings.classes.clone(),
            classes: HashMap::new(),
            known: HashMap::new(),
            next: 0,
            is_numbered_by_name: sharing.discipline == settings::Discipline::Sw,
            departures: 0,
        }
    }

    /// Whether newcomers have a number from now on that is the same at every forwarder: under SW it
    /// says who goes first.
    pub(crate) fn number_by_name(&mut self, is_so: bool) {
        self.is_numbered_by_name = is_so;
    }

    /// A number that no class has.
    fn take_number(&mut self, name: &str) -> ClassId {
        let is_free = |number| number != OTHER_CLASS && !self.classes.contains_key(&number);
        if self.is_numbered_by_name {
            let number = BY_NAME | folded(name);
            let next = |number: &ClassId| Some(ClassId(BY_NAME | number.0.wrapping_add(1)));
            let mut from = std::iter::successors(Some(ClassId(number)), next);
            return from.find(|number| is_free(*number)).expect("there are more than classes");
        }
        let class = ClassId(self.next);
        // Past the last number it begins anew, two thousand million jobs later.
        self.next = (self.next + 1) % BY_NAME;
        class
    }

    /// Somebody has connected. `is_busy` says of which classes requests are on their way.
    pub(crate) fn enter(
        &mut self,
        identity: Identity,
        is_busy: impl Fn(ClassId) -> bool,
    ) -> Entered {
        let identity = match self.level {
            Level::None | Level::Target => {
                return Entered { class: ALL, new: None, gone: None };
            }
            Level::User => Identity { job: String::new(), ..identity },
            Level::Job => identity,
        };
        let of_user = Identity { job: NO_JOB.to_owned(), ..identity };
        if let Some(entered) = self.enter_known(&identity) {
            return entered;
        }
        if let Ok(gone) = self.make_room(false, &is_busy) {
            return self.enter_new(identity, false, gone);
        }
        if self.level == Level::Job {
            if let Some(entered) = self.enter_known(&of_user) {
                return entered;
            }
            if let Ok(gone) = self.make_room(true, &is_busy) {
                return self.enter_new(of_user, true, gone);
            }
        }
        Entered { class: OTHER_CLASS, new: None, gone: None }
    }

    fn enter_known(&mut self, identity: &Identity) -> Option<Entered> {
        let class = *self.known.get(identity)?;
        let known = self.classes.get_mut(&class).expect("who is known has a place");
        known.connections_count += 1;
        Some(Entered { class, new: None, gone: None })
    }

    fn enter_new(&mut self, identity: Identity, is_spare: bool, gone: Option<ClassId>) -> Entered {
        let name = self.name_of(&identity);
        let class = self.take_number(&name);
        self.known.insert(identity.clone(), class);
        let told = self.told(class, &identity);
        self.classes.insert(class, Class { identity, connections_count: 1, is_spare, left: 0 });
        Entered { class, new: Some((told, name)), gone }
    }

    /// A connection of a class has gone.
    pub(crate) fn leave(&mut self, class: ClassId) {
        self.departures += 1;
        if let Some(class) = self.classes.get_mut(&class) {
            class.connections_count -= 1;
            class.left = self.departures;
        }
    }

    /// How the class is named that has no members of its own.
    pub(crate) fn rest_name(&self) -> &'static str {
        if self.level == Level::None { "all" } else { "other" }
    }

    /// Other things hold from now on: what the scheduler has to be told about which classes, each
    /// with the policy of its own that it had.
    pub(crate) fn change(&mut self, settings: &Settings) -> Vec<(Told, Option<String>)> {
        let old = self.all_told();
        self.settings = settings.classes.clone();
        self.targets = settings.store.targets;
        let mut known: HashMap<ClassId, Told> =
            old.into_iter().map(|told| (told.class, told)).collect();
        let changed = self.all_told().into_iter().filter_map(|told| {
            let had = known.remove(&told.class);
            (had.as_ref() != Some(&told)).then(|| (told, had.and_then(|had| had.policy)))
        });
        changed.collect()
    }

    /// Everything that holds for classes.
    pub(crate) fn all_told(&self) -> Vec<Told> {
        let classes = self.classes.iter().map(|(id, class)| self.told(*id, &class.identity));
        let targets = match self.level {
            Level::Target => self.targets,
            Level::None | Level::User | Level::Job => 0,
        };
        let of_default = self.settings.of_default();
        let targets = (0..targets).map(|target| Told::alone(ClassId(target), &of_default));
        classes.chain(targets).chain(self.told_other()).collect()
    }

    /// What holds for those who have no place.
    fn told_other(&self) -> Option<Told> {
        (self.level != Level::None).then(|| Told::alone(OTHER_CLASS, &self.settings.of_other()))
    }

    /// Every class that has a place.
    pub(crate) fn ids(&self) -> impl Iterator<Item = ClassId> + '_ {
        self.classes.keys().copied()
    }

    /// Users about whom something was said, with their share.
    pub(crate) fn users(&self) -> Vec<(GroupId, Share)> {
        match self.level {
            Level::Job => {
                let users = self.settings.users();
                users.map(|(user, settings)| (GroupId(user), share(settings))).collect()
            }
            Level::User | Level::None | Level::Target => Vec::new(),
        }
    }

    /// Connections of a class now, and what was said about it; `None` if it has no place.
    pub(crate) fn about(&self, class: ClassId) -> Option<(u32, ClassSettings)> {
        let class = self.classes.get(&class)?;
        Some((class.connections_count, self.settings_of(&class.identity)))
    }

    /// Sees to it that there is a place, if need be that of the class that has been gone longest;
    /// an error if there is none.
    fn make_room(
        &mut self,
        is_spare: bool,
        is_busy: impl Fn(ClassId) -> bool,
    ) -> Result<Option<ClassId>, ()> {
        let alike = || self.classes.iter().filter(|(_, class)| class.is_spare == is_spare);
        if self.classes.len() < self.max || alike().count() < self.max {
            return Ok(None);
        }
        let gone = alike().filter(|(id, class)| class.connections_count == 0 && !is_busy(**id));
        let Some((id, _)) = gone.min_by_key(|(_, class)| class.left) else { return Err(()) };
        let id = *id;
        if let Some(class) = self.classes.remove(&id) {
            self.known.remove(&class.identity);
        }
        Ok(Some(id))
    }

    fn name_of(&self, Identity { user, job }: &Identity) -> String {
        match self.level {
            Level::Job => format!("{user}/{job}"),
            Level::User | Level::None | Level::Target => format!("{}{user}", class::USER),
        }
    }

    fn settings_of(&self, identity: &Identity) -> ClassSettings {
        match self.level {
            Level::Job => self.settings.of_job(identity.user, &identity.job),
            Level::User | Level::None | Level::Target => {
                self.settings.of_user(identity.user).or(&self.settings.of_default())
            }
        }
    }

    fn told(&self, class: ClassId, identity: &Identity) -> Told {
        let settings = self.settings_of(identity);
        let user = match self.level {
            Level::Job => self.settings.of_user(identity.user),
            Level::User | Level::None | Level::Target => ClassSettings::default(),
        };
        Told {
            waits_at_limit: waits_at_limit(&settings) || waits_at_limit(&user),
            class,
            share: class_share(
                &settings,
                (self.level == Level::Job).then_some(GroupId(identity.user)),
            ),
            policy: settings.policy,
        }
    }
}

fn class_share(settings: &ClassSettings, group: Option<GroupId>) -> ClassShare {
    let reservation = settings.reservation.map_or(0, units);
    ClassShare { share: share(settings), reservation, group }
}

fn units(ceiling: Ceiling) -> u64 {
    match ceiling {
        Ceiling::None => 0,
        Ceiling::PerSecond(units) => units,
    }
}

fn waits_at_limit(settings: &ClassSettings) -> bool {
    let Share { ops, bytes, at_limit, .. } = share(settings);
    at_limit == AtLimit::Wait && (ops.is_some() || bytes.is_some())
}

fn share(settings: &ClassSettings) -> Share {
    let rate = |ceiling: Option<Ceiling>, rate: fn(u64) -> Rate| {
        ceiling.map(units).filter(|units| *units > 0).map(rate)
    };
    Share {
        weight: settings.weight.unwrap_or(1),
        ops: rate(settings.limit_operations_per_second, Rate::ops),
        bytes: rate(settings.limit_bytes_per_second, Rate::bytes),
        cost: None,
        at_limit: match settings.at_limit {
            Some(class::AtLimit::Wait) => AtLimit::Wait,
            Some(class::AtLimit::Borrow) | None => AtLimit::Borrow,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(level: Level, max: u32) -> Settings {
        let mut settings = Settings::default();
        (settings.sharing.level, settings.sharing.class_count_max) = (level, max);
        settings.classes.set("climate", "weight", "3").unwrap();
        settings.classes.set("user:7", "weight", "5").unwrap();
        settings
    }

    fn classes(level: Level, max: u32) -> Classes {
        Classes::new(&settings(level, max))
    }

    fn enter(classes: &mut Classes, user: u32, job: &str) -> Entered {
        classes.enter(Identity::new(user, job.as_bytes()), |_| false)
    }

    #[test]
    fn a_job_of_a_user_is_a_class_below_the_user() {
        let mut classes = classes(Level::Job, 10);
        let climate = enter(&mut classes, 7, "climate");
        let (told, name) = climate.new.expect("it is new");
        assert_eq!((told.share.share.weight, told.share.group), (3, Some(GroupId(7))));
        assert_eq!(name, "7/climate");
        assert_eq!(classes.users()[0].1.weight, 5);
        let no_job = enter(&mut classes, 7, "");
        assert_ne!(climate.class, no_job.class);
        assert_eq!(no_job.new.unwrap().1, "7/-");
        assert_ne!(enter(&mut classes, 8, "climate").class, climate.class);
        let again = enter(&mut classes, 7, "climate");
        assert_eq!(again.class, climate.class);
        assert!(again.new.is_none());
        assert_eq!(classes.about(climate.class).unwrap().0, 2);
    }

    #[test]
    fn without_jobs_a_user_is_a_class_and_without_levels_everybody_is() {
        let mut users = classes(Level::User, 10);
        let entered = enter(&mut users, 7, "climate");
        let (told, name) = entered.new.unwrap();
        assert_eq!((told.share.share.weight, told.share.group), (5, None));
        assert_eq!(name, "user:7");
        assert_eq!(enter(&mut users, 7, "weather").class, entered.class);
        let mut nobody = classes(Level::None, 10);
        assert_eq!(enter(&mut nobody, 7, "climate").class, enter(&mut nobody, 8, "").class);
        assert!(nobody.users().is_empty());
    }

    #[test]
    fn a_place_is_given_up_by_whoever_left_first_and_never_by_who_is_there() {
        let mut classes = classes(Level::Job, 3);
        let [a, b, c] = ["a", "b", "c"].map(|job| enter(&mut classes, 1, job).class);
        classes.leave(b);
        classes.leave(a);
        let taken = enter(&mut classes, 2, "d");
        assert_eq!(taken.gone, Some(b));
        assert!(![a, b, c].contains(&taken.class), "numbers are not used again");
        assert_eq!(enter(&mut classes, 1, "c").class, c);
        let again = enter(&mut classes, 1, "b");
        assert_eq!((again.gone, again.new.is_some()), (Some(a), true));
    }

    #[test]
    fn a_class_keeps_its_place_while_requests_of_it_are_on_their_way() {
        let mut classes = classes(Level::Job, 2);
        let [a, b] = ["a", "b"].map(|job| enter(&mut classes, 1, job).class);
        classes.leave(a);
        classes.leave(b);
        let next = classes.enter(Identity::new(1, b"c"), |class| class == a);
        assert_eq!(next.gone, Some(b), "a has left first, but its requests are there");
        assert_eq!(enter(&mut classes, 1, "a").class, a);
    }

    #[test]
    fn without_a_place_a_job_is_the_users_and_the_users_limits_hold() {
        let mut classes = classes(Level::Job, 3);
        let named: Vec<_> = ["a", "b", "c"].map(|job| enter(&mut classes, 7, job).class).into();
        let spare = enter(&mut classes, 7, "d");
        let (told, name) = spare.new.expect("it is the first without a place");
        assert_eq!((told.share.group, name.as_str()), (Some(GroupId(7)), "7/-"));
        assert!(spare.class != OTHER_CLASS && !named.contains(&spare.class));
        assert_eq!(enter(&mut classes, 7, "e").class, spare.class);
        let later = enter(&mut classes, 8, "climate");
        let (told, name) = later.new.expect("other users do not share it");
        assert_eq!((told.share.group, name.as_str()), (Some(GroupId(8)), "8/-"));
        enter(&mut classes, 9, "");
        assert_eq!(enter(&mut classes, 10, "x").class, OTHER_CLASS, "three users more have come");
        // A user's class that has been left is no job's.
        classes.leave(later.class);
        assert_eq!(enter(&mut classes, 7, "f").class, spare.class);
        assert_eq!(enter(&mut classes, 10, "x").gone, Some(later.class));
        // A job's place that has been left is.
        classes.leave(named[1]);
        assert_eq!(enter(&mut classes, 7, "f").gone, Some(named[1]));
        assert_eq!(classes.ids().count(), 6);
    }

    #[test]
    fn those_without_a_place_have_the_settings_of_other_or_the_default() {
        let mut classes = classes(Level::Job, 3);
        assert_eq!(classes.told_other().expect("jobs share").share, ClassShare::default());
        let mut settings = settings(Level::Job, 3);
        settings.classes.set("default", "limit", "1MiB/s").unwrap();
        settings.classes.set("other", "at_limit", "wait").unwrap();
        let changed = classes.change(&settings);
        let [(told, _)] = changed.as_slice() else { panic!("{changed:?}") };
        assert_eq!((told.class, told.waits_at_limit), (OTHER_CLASS, true));
        assert_eq!(told.share.share.bytes, Some(Rate::bytes(1 << 20)));
        assert_eq!(self::classes(Level::None, 3).told_other(), None);
    }

    #[test]
    fn under_sw_a_job_has_the_same_number_at_every_forwarder() {
        let numbers = |jobs: &[&str]| {
            let mut classes = classes(Level::Job, 10);
            classes.number_by_name(true);
            let all: HashMap<String, ClassId> =
                jobs.iter().map(|job| ((*job).into(), enter(&mut classes, 7, job).class)).collect();
            assert_eq!(all.len(), classes.ids().count(), "no two have one number");
            all
        };
        let one = numbers(&["climate", "weather", "ocean"]);
        assert_eq!(one, numbers(&["ocean", "weather", "climate"]));
        // Where two have the same, who comes later has another.
        let mut classes = classes(Level::Job, 10);
        classes.number_by_name(true);
        let taken = enter(&mut classes, 7, "climate").class;
        assert_ne!(classes.take_number("7/climate"), taken);
        // Numbers in the order of coming are never these.
        classes.number_by_name(false);
        assert!(enter(&mut classes, 7, "ice").class.0 < BY_NAME);
    }

    #[test]
    fn names_that_cannot_be_shown_are_replaced() {
        let mut classes = classes(Level::Job, 4);
        let entered = classes.enter(Identity::new(1, b"a\x1b[2J\xff"), |_| false);
        assert_eq!(entered.new.unwrap().1, "1/a?[2J\u{fffd}");
    }

    #[test]
    fn a_change_reaches_whom_it_concerns() {
        let mut classes = classes(Level::Job, 10);
        enter(&mut classes, 7, "climate");
        enter(&mut classes, 7, "weather");
        let mut settings = settings(Level::Job, 10);
        settings.classes.set("climate", "limit", "1MiB/s").unwrap();
        settings.classes.set("climate", "at_limit", "wait").unwrap();
        let changed = classes.change(&settings);
        let [(told, _)] = changed.as_slice() else { panic!("{changed:?}") };
        assert!(told.waits_at_limit);
        let share = told.share.share;
        assert_eq!((share.bytes, share.at_limit), (Some(Rate::bytes(1 << 20)), AtLimit::Wait));
    }
}
