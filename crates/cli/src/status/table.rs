//! A status for people: the heaviest first, then a line a subject.

use std::time::Duration;

use forebay_forwarder::Status;
use forebay_forwarder::status::{Account, Class, Times};

use crate::columns::Columns;
use crate::console::printable;
use crate::size::{Length, Size};

/// Classes and files that are shown; the JSON has more.
const CLASSES_MAX: usize = 12;
const FILES_MAX: usize = 6;

/// All of it; with an earlier status, amounts are those in between.
pub(super) fn table(endpoint: &str, status: &Status, before: Option<&Status>) -> String {
    let span = Span::new(status, before);
    let mut text = format!("{:<10}  {}\n\n", "heaviest", heaviest(&span));
    text += &classes(&span).to_string();
    if !status.files.is_empty() {
        text += &format!("\n{}", files(&span));
    }
    text.push('\n');
    let subjects = subjects(endpoint, status);
    text.extend(subjects.iter().map(|(name, about)| format!("{name:<10}  {about}\n")));
    text
}

/// One line: how much, by whom, and what waits.
pub(super) fn line(status: &Status, before: Option<&Status>) -> String {
    let span = Span::new(status, before);
    let waiting = status.classes.iter().filter(|class| class.alive.waiting > 0);
    let oldest = waiting.max_by_key(|class| class.alive.oldest_waiting_ns).map_or_else(
        || "-".to_owned(),
        |class| format!("{} ({})", Length(class.alive.oldest_waiting_ns), printable(&class.name)),
    );
    format!(
        "{} s: {}; {} queued, {} in flight, oldest waiting {oldest}\n",
        Duration::from_nanos(status.uptime_ns).as_secs(),
        heaviest(&span),
        status.scheduler.queued,
        status.scheduler.in_flight,
    )
}

/// What happened between two statuses, or since the start.
struct Span<'a> {
    status: &'a Status,
    before: Option<&'a Status>,
    seconds: f64,
}

/// What one class or file has had in a span.
struct Had {
    bytes: u64,
    requests: u64,
}

impl<'a> Span<'a> {
    fn new(status: &'a Status, before: Option<&'a Status>) -> Self {
        let earlier = before.map_or(0, |before| before.uptime_ns);
        let length = Duration::from_nanos(status.uptime_ns.saturating_sub(earlier));
        Self { status, before, seconds: length.as_secs_f64() }
    }

    /// Rows may come and go between two statuses; what is smaller than before was begun anew.
    fn had(&self, now: &Account, before: Option<&Account>) -> Had {
        let since = |now: u64, before: u64| now.checked_sub(before).unwrap_or(now);
        Had {
            bytes: since(now.bytes, before.map_or(0, |before| before.bytes)),
            requests: since(now.requests, before.map_or(0, |before| before.requests)),
        }
    }

    /// The classes with what they had, the heaviest of the span first.
    fn classes(&self) -> Vec<(&'a Class, Had)> {
        let earlier = |name: &str| {
            let known = self.before.and_then(|s| s.classes.iter().find(|class| class.name == name));
            known.map(|class| &class.account)
        };
        let row = |class: &'a Class| (class, self.had(&class.account, earlier(&class.name)));
        let mut rows: Vec<_> = self.status.classes.iter().map(row).collect();
        if self.before.is_some() {
            rows.sort_by_key(|(_, had)| std::cmp::Reverse(weight(had)));
        }
        rows
    }

    /// Bytes of the whole span, or a second of it.
    fn amount(&self, bytes: u64) -> String {
        match self.before {
            None => Size(bytes).to_string(),
            Some(_) => format!("{}/s", Size(self.a_second(bytes))),
        }
    }

    fn number(&self, requests: u64) -> String {
        match self.before {
            None => requests.to_string(),
            Some(_) => format!("{}/s", self.a_second(requests)),
        }
    }

    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        clippy::cast_possible_truncation,
        reason = "for people to read"
    )]
    fn a_second(&self, amount: u64) -> u64 {
        if self.seconds > 0.0 { (amount as f64 / self.seconds) as u64 } else { 0 }
    }
}

/// As the forwarder ranks: many small requests weigh more than their bytes.
fn weight(had: &Had) -> u64 {
    had.bytes.saturating_add(had.requests.saturating_mul(4096))
}

fn percent(part: u64, whole: u64) -> String {
    let percent = (u128::from(part) * 100).checked_div(u128::from(whole));
    percent.map_or_else(|| "-".to_owned(), |percent| format!("{percent} %"))
}

/// Who hammers the storage, in a sentence.
fn heaviest(span: &Span<'_>) -> String {
    let classes = span.classes();
    let bytes = classes.iter().map(|(_, had)| had.bytes).sum();
    let requests: u64 = classes.iter().map(|(_, had)| had.requests).sum();
    match classes.first().filter(|(_, had)| had.requests > 0) {
        None => "nobody: nothing has reached the store".to_owned(),
        Some((class, had)) => format!(
            "{} with {} of {} and {} of {} requests",
            printable(&class.name),
            percent(had.bytes, bytes),
            span.amount(bytes),
            percent(had.requests, requests),
            span.number(requests)
        ),
    }
}

fn classes(span: &Span<'_>) -> Columns {
    let rows = span.classes();
    let bytes = rows.iter().map(|(_, had)| had.bytes).sum();
    let mut columns = Columns::new(&[
        "class",
        "share",
        "moved",
        "requests",
        "merged",
        "queue p50/p99",
        "device p50/p99",
        "throttled",
        "waiting (oldest)",
        "blocked (most by)",
    ]);
    for (class, had) in rows.iter().take(CLASSES_MAX) {
        let account = &class.account;
        let waiting = match class.alive.waiting {
            0 => "-".to_owned(),
            count => format!("{count} ({})", Length(class.alive.oldest_waiting_ns)),
        };
        let throttled = match account.throttled {
            0 => "-".to_owned(),
            times => format!("{} in {times}", Length(account.throttled_ns)),
        };
        // Who holds it up now is of more interest than who did.
        let by = class.alive.blocked_now_by.first().or(class.blocked_by.first());
        let blocked = match (account.blocked_ns + class.alive.blocked_now_ns, by) {
            (0, None) => "-".to_owned(),
            (time, None) => Length(time).to_string(),
            (time, Some(by)) => format!("{} ({})", Length(time), printable(&by.class)),
        };
        let blocked = match class.alive.blocked_now {
            0 => blocked,
            count => format!("{blocked}, {count} now"),
        };
        columns.push([
            named(class),
            percent(had.bytes, bytes),
            span.amount(had.bytes),
            span.number(had.requests),
            merged(account),
            times(&account.queue_time),
            times(&account.device_time),
            throttled,
            waiting,
            blocked,
        ]);
    }
    columns.note_left_out(rows.len().saturating_sub(CLASSES_MAX), "classes");
    columns
}

/// The name with what is set for it.
fn named(class: &Class) -> String {
    let settings: Vec<_> =
        class.settings.iter().map(|(key, value)| format!("{key}={value}")).collect();
    if settings.is_empty() {
        printable(&class.name)
    } else {
        format!("{} [{}]", printable(&class.name), settings.join(" "))
    }
}

fn files(span: &Span<'_>) -> Columns {
    let earlier = |name: &str| {
        let known = span.before.and_then(|s| s.files.iter().find(|file| file.name == name));
        known.map(|file| &file.account)
    };
    let rows = &span.status.files;
    let had = |file: &forebay_forwarder::status::File| span.had(&file.account, earlier(&file.name));
    let mut shown: Vec<_> = rows.iter().map(|file| (file, had(file))).collect();
    if span.before.is_some() {
        shown.sort_by_key(|(_, had)| std::cmp::Reverse(weight(had)));
    }
    let bytes = shown.iter().map(|(_, had)| had.bytes).sum();
    let mut columns = Columns::new(&[
        "file",
        "share",
        "moved",
        "requests",
        "merged",
        "queue p50/p99",
        "device p50/p99",
    ]);
    for (file, had) in shown.iter().take(FILES_MAX) {
        columns.push([
            printable(&file.name),
            percent(had.bytes, bytes),
            span.amount(had.bytes),
            span.number(had.requests),
            merged(&file.account),
            times(&file.account.queue_time),
            times(&file.account.device_time),
        ]);
    }
    columns.note_left_out(shown.len().saturating_sub(FILES_MAX), "files");
    columns
}

fn merged(account: &Account) -> String {
    match account.batches {
        0 => "-".to_owned(),
        _ => format!("{:.1}", account.merge_ratio()),
    }
}

fn times(times: &Times) -> String {
    format!("{}/{}", Length(times.p50_ns), Length(times.p99_ns))
}

/// What is worth saying besides, a line a subject.
fn subjects(endpoint: &str, status: &Status) -> [(&'static str, String); 9] {
    let Status { clients, pool, calls, scheduler, .. } = status;
    let uptime = Duration::from_nanos(status.uptime_ns).as_secs();
    let counters: String =
        status.store_counters.iter().map(|(name, count)| format!(", {name} {count}")).collect();
    let not_hooked: Vec<String> =
        status.not_hooked.iter().map(|(reason, calls)| format!("{reason} {calls}")).collect();
    [
        (
            "forwarder",
            format!(
                "{endpoint}, version {}, up {uptime} s, policy {}, sharing {}",
                status.version, status.policy, status.sharing
            ),
        ),
        (
            "clients",
            format!(
                "{} connections, {} processes so far, {} open files, {} refused, {} violations, {} stalled",
                clients.connections,
                clients.processes,
                clients.open_files,
                clients.connections_refused,
                clients.violations,
                clients.stalled
            ),
        ),
        (
            "calls",
            format!(
                "{} reads of {}, {} writes of {}, {} unanswered, {} errors",
                calls.reads,
                Size(calls.read_bytes),
                calls.writes,
                Size(calls.written_bytes),
                calls.unanswered,
                calls.errors
            ),
        ),
        (
            "merged",
            format!(
                "{} requests in {} batches of {:.1} requests and {}",
                scheduler.batched_requests,
                scheduler.batches,
                scheduler.batch_requests_mean(),
                Size(scheduler.batched_bytes / scheduler.batches.max(1)),
            ),
        ),
        (
            "bypassed",
            format!(
                "{} at once, {} with nothing to be ordered against, {} by size or kind",
                calls.immediate, scheduler.bypassed, scheduler.skipped
            ),
        ),
        (
            "waiting",
            format!(
                "{} queued, {} in flight; so far {} behind a conflict, {} for memory, {} for a better batch",
                scheduler.queued,
                scheduler.in_flight,
                scheduler.blocked,
                calls.memory_waits,
                scheduler.waits
            ),
        ),
        (
            "pool",
            format!(
                "{} of {} in use, {} at most so far",
                Size(pool.used_bytes),
                Size(pool.capacity_bytes),
                Size(pool.peak_bytes)
            ),
        ),
        ("store", format!("{}: {} calls{counters}", status.store, calls.store_calls)),
        (
            "not hooked",
            if not_hooked.is_empty() { "nothing seen".to_owned() } else { not_hooked.join(", ") },
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(name: &str, bytes: u64, requests: u64) -> Class {
        let account =
            Account { bytes, requests, batches: 2, batched_requests: 7, ..Account::default() };
        Class { name: name.to_owned(), account, ..Class::default() }
    }

    fn status() -> Status {
        let mut status = Status { policy: "aioli".to_owned(), ..Status::default() };
        status.uptime_ns = 10_000_000_000;
        status.pool.capacity_bytes = 128 << 20;
        status.not_hooked.insert("mapped".to_owned(), 2);
        status.classes = vec![class("7/climate", 3 << 20, 30), class("8/-", 1 << 20, 10)];
        status
    }

    #[test]
    fn a_name_neither_breaks_its_line_nor_reaches_the_terminal() {
        let mut status = status();
        status.classes[0].name = "7/a\x1b[2J".to_owned();
        let account = Account { bytes: 1 << 20, requests: 1, ..Account::default() };
        let name = "/data/a\nb\x1b]0;x\x07".to_owned();
        let file = forebay_forwarder::status::File { name, account, ..Default::default() };
        status.files = vec![file];
        let text = table("unix:/x", &status, None);
        assert!(text.contains("/data/a?b?]0;x?") && text.contains("7/a?[2J"), "{text}");
        assert!(text.chars().all(|char| char == '\n' || !char.is_control()), "{text:?}");
        let line = line(&status, None);
        assert!(!line.trim_end().chars().any(char::is_control), "{line:?}");
    }

    #[test]
    fn the_table_names_every_subject() {
        let text = table("unix:/x", &status(), None);
        for part in ["unix:/x", "policy aioli", "0 B of 128.0 MiB", "mapped 2", "0 queued"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn who_hammers_the_storage_comes_first() {
        let mut status = status();
        status.classes[1].blocked_by = vec![forebay_forwarder::status::Blocker {
            class: "7/climate".to_owned(),
            requests: 1,
            time_ns: 2_000_000,
        }];
        status.classes[1].account.blocked_ns = 5_000_000;
        let alive = &mut status.classes[1].alive;
        (alive.waiting, alive.oldest_waiting_ns) = (2, 7_000_000);
        let account = &mut status.classes[0].account;
        (account.throttled, account.throttled_ns) = (4, 9_000_000);
        status.classes[0].settings.insert("weight".to_owned(), "3".to_owned());
        let text = table("unix:/x", &status, None);
        assert!(line(&status, None).ends_with("oldest waiting 7.0 ms (8/-)\n"));
        let first = text.lines().next().unwrap();
        assert!(first.contains("7/climate with 75 % of 4.0 MiB and 75 % of 40 requests"), "{text}");
        for part in ["7/climate [weight=3]", "5.0 ms (7/climate)", "9.0 ms in 4", "3.5"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn a_job_that_is_stuck_now_is_shown_with_who_holds_it_up() {
        let mut status = status();
        let by = |class: &str, time_ns| forebay_forwarder::status::Blocker {
            class: class.to_owned(),
            requests: 3,
            time_ns,
        };
        status.classes[1].blocked_by = vec![by("9/once", 1_000_000)];
        status.classes[1].account.blocked_ns = 1_000_000;
        let alive = &mut status.classes[1].alive;
        (alive.waiting, alive.blocked_now, alive.blocked_now_ns) = (3, 3, 4_000_000);
        alive.blocked_now_by = vec![by("7/climate", 4_000_000)];
        let text = table("unix:/x", &status, None);
        assert!(text.contains("5.0 ms (7/climate), 3 now"), "{text}");
    }

    #[test]
    fn between_two_statuses_what_happened_in_between_counts() {
        let (before, mut now) = (status(), status());
        now.uptime_ns += 2_000_000_000;
        now.classes[1].account.bytes += 8 << 20;
        now.classes[1].account.requests += 4;
        let text = table("unix:/x", &now, Some(&before));
        let first = text.lines().next().unwrap();
        assert!(first.contains("8/- with 100 % of 4.0 MiB/s and 100 % of 2/s requests"), "{text}");
        let line = line(&now, Some(&before));
        assert!(line.starts_with("12 s: 8/- with 100 %") && line.lines().count() == 1, "{line}");
    }

    #[test]
    fn without_requests_nobody_is_blamed() {
        let text = table("unix:/x", &Status::default(), None);
        assert!(text.starts_with("heaviest    nobody"), "{text}");
    }
}
