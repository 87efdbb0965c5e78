//! Logs of other tools become traces, and a line that is not understood is named with what would do.

#[path = "format/import.rs"]
mod any;

use any::import_any;
use forebay_sched::Access;
use forebay_trace::{Imported, ImportedRequest, Life, Lives, Reader, Summary, Workload};
use forebay_units::{ByteRange, Bytes, ClientId, FileIndex, Nanos, Offset, Timestamp};
use proptest::collection::vec;
use proptest::prelude::*;

/// Written by fio 3.33, shortened.
const FIO_3: &str = "fio version 3 iolog
21 /tmp/f add
132 /tmp/f open
137 /tmp/f read 0 8192
368 /tmp/f read 40960 8192
539 /tmp/f write 24576 8192
540 /tmp/f sync 0 0
661 /tmp/f close
";

const FIO_2: &str = "fio version 2 iolog
/a add
/b add
/a open
/b open
/a write 0 4096
/a wait 250 0
/b read 4096 4096
/a trim 0 4096
/a datasync 0 0
/a close
/b close
";

/// From the documentation of Darshan, with an MPI-IO module and a Lustre column added.
const DXT: &str = "# darshan log version: 3.41
# exe: ./ior
# ***************************************************
# DXT_POSIX module data
# ***************************************************

# DXT, file_id: 16457598720760448348, file_name: /tmp/test/test File
# DXT, rank: 0, hostname: shane-thinkpad
# DXT, write_count: 2, read_count: 1
# DXT, mnt_pt: /, fs_type: lustre
# Module    Rank  Wt/Rd  Segment          Offset       Length    Start(s)      End(s)  [OST]
 X_POSIX       0  write        0               0       262144      0.0029      0.0032  [  1]  [ 12]
 X_POSIX       0  write        1          262144       262144      0.0032      0.0035  [  1]
 X_POSIX       0   read        0               0            0      0.0048      0.0048

# DXT, file_id: 16457598720760448348, file_name: /tmp/test/test File
# DXT, rank: 1, hostname: other
# Module    Rank  Wt/Rd  Segment          Offset       Length    Start(s)      End(s)
 X_POSIX       1   read        0          524288         4096      0.0030      0.0031

# DXT_MPIIO module data
# DXT, file_id: 16457598720760448348, file_name: /tmp/test/test File
# DXT, rank: 0, hostname: shane-thinkpad
 X_MPIIO       0  write        0               0       524288      0.0028      0.0036
";

fn import(text: &str) -> Imported {
    let mut imported = Imported::default();
    imported.add(text).unwrap_or_else(|error| panic!("{error}"));
    imported
}

fn trace_of(imported: &Imported) -> Vec<u8> {
    let mut bytes = Vec::new();
    imported.write_trace(|piece| bytes.extend(piece));
    bytes
}

fn lives_of(bytes: &[u8]) -> Vec<Life> {
    let (mut lives, mut ended) = (Lives::default(), Vec::new());
    for record in Reader::new(bytes).unwrap() {
        lives.take(&record.unwrap(), |_, life| ended.push(*life));
    }
    assert_eq!(lives.open().count(), 0);
    ended
}

/// Time in microseconds, file, client, access, offset, length.
fn rows(imported: &Imported) -> Vec<(u64, &str, u32, Access, u64, u64)> {
    let row = |request: &ImportedRequest| {
        let ImportedRequest { at, client, file, access, range, .. } = *request;
        let name = &imported.files[file.0 as usize][..];
        (at.0 / 1_000, name, client.0, access, range.start.0, range.length().0)
    };
    imported.requests.iter().map(row).collect()
}

#[test]
fn a_fio_log_of_version_3_has_times() {
    let imported = import(FIO_3);
    assert_eq!(
        rows(&imported),
        [
            (137, "/tmp/f", 0, Access::Read, 0, 8192),
            (368, "/tmp/f", 0, Access::Read, 40960, 8192),
            (539, "/tmp/f", 0, Access::Write, 24576, 8192),
            (540, "/tmp/f", 0, Access::Sync, 0, u64::MAX),
        ]
    );
    assert!(!imported.has_ends);
}

#[test]
fn a_fio_log_of_version_2_has_waits() {
    let imported = import(FIO_2);
    assert_eq!(
        rows(&imported),
        [
            (0, "/a", 0, Access::Write, 0, 4096),
            (250, "/b", 0, Access::Read, 4096, 4096),
            (250, "/a", 0, Access::Alone, 0, 4096),
            (250, "/a", 0, Access::Sync, 0, u64::MAX),
        ]
    );
    // Nothing says when requests ended: they follow each other, and durations are not invented.
    let bytes = trace_of(&imported);
    let workload = Workload::read(Reader::new(&bytes).unwrap());
    let after: Vec<_> = workload.requests.iter().map(|r| (r.after, r.think.0, r.latency)).collect();
    assert_eq!(
        after,
        [(None, 0, None), (Some(0), 250_000, None), (Some(1), 0, None), (Some(2), 0, None)]
    );
    let summary = Summary::read(Reader::new(&bytes).unwrap(), 10);
    assert_eq!((summary.requests.all, summary.times.latency.count), (4, 0));
    assert_eq!((summary.bytes.read, summary.bytes.written), (4096, 4096));
}

#[test]
fn several_logs_are_several_clients_in_one_time() {
    let mut imported = import(FIO_3);
    imported.add(&FIO_3.replace("137 /tmp/f read 0", "138 /tmp/g add\n139 /tmp/g read 8")).unwrap();
    let lives = lives_of(&trace_of(&imported));
    let order: Vec<_> = lives.iter().map(|l| (l.arrived.0 / 1_000, l.request.client.0)).collect();
    let expected = [(137, 0), (139, 1), (368, 0), (368, 1), (539, 0), (539, 1), (540, 0), (540, 1)];
    assert_eq!(order, expected);
    let error = imported.add(DXT).unwrap_err();
    assert!(error.to_string().contains("of their own"), "{error}");
}

#[test]
fn a_darshan_text_has_ranks_and_durations_and_counts_no_access_twice() {
    let imported = import(DXT);
    assert_eq!(
        rows(&imported),
        [
            (2_900, "/tmp/test/test File", 0, Access::Write, 0, 262_144),
            (3_200, "/tmp/test/test File", 0, Access::Write, 262_144, 262_144),
            (3_000, "/tmp/test/test File", 1, Access::Read, 524_288, 4_096),
        ]
    );
    assert_eq!(imported.clients, ["rank 0 shane-thinkpad", "rank 1 other"]);
    assert_eq!(imported.left_out, 2, "the MPI-IO row and the empty read");
    let bytes = trace_of(&imported);
    let workload = Workload::read(Reader::new(&bytes).unwrap());
    let rows: Vec<_> =
        workload.requests.iter().map(|r| (r.at.0, r.after, r.latency.unwrap().0)).collect();
    assert_eq!(rows, [(0, None, 300_000), (100_000, None, 100_000), (300_000, Some(0), 300_000)]);
    let summary = Summary::read(Reader::new(&bytes).unwrap(), 10);
    assert_eq!(summary.clients.heaviest[0].name, "rank 0 shane-thinkpad");
    assert_eq!(summary.times.latency.max_ns, 300_000);
    assert_eq!((summary.order.by_client.accesses, summary.order.by_client.consecutive), (1, 1));
}

#[test]
fn without_a_posix_module_the_mpi_io_rows_count() {
    let text: String =
        DXT.lines().filter(|line| !line.contains("X_POSIX")).map(|l| format!("{l}\n")).collect();
    let imported = import(&text);
    assert_eq!(rows(&imported)[0].5, 524_288);
}

#[test]
fn what_is_not_understood_is_named_with_its_line_and_what_would_do() {
    let refuse = |text: &str| Imported::default().add(text).unwrap_err().to_string();
    let fio = |line: &str| refuse(&format!("fio version 2 iolog\n/a add\n{line}\n"));
    let fio_3 = |line: &str| refuse(&format!("fio version 3 iolog\n1 /a add\n{line}\n"));
    let dxt = |line: &str| {
        refuse(&format!("# DXT, file_id: 1, file_name: /f\n# DXT, rank: 0, hostname: h\n{line}\n"))
    };
    for (error, parts) in [
        (refuse("hello\nworld"), ["line 1: ", "fio version 3 iolog", "darshan-dxt-parser"]),
        (refuse(""), ["line 1: ", "fio version 2 iolog", "it begins with \"\""]),
        (fio("/a read x 1"), ["line 3: ", "offset is \"x\"", "whole number"]),
        (fio("/a read 1"), ["line 3: ", "/a read 1", "NAME ACTION OFFSET LENGTH"]),
        (fio("/b read 0 1"), ["line 3: ", "/b", "add\" has to come before"]),
        (fio("/a frobnicate 0 1"), ["line 3: ", "frobnicate", "known: read"]),
        (fio("/a read 9223372036854775807 1"), ["line 3: ", "beyond the largest file", ""]),
        (fio_3("2 /a wait 5 0"), ["line 3: ", "no wait", "later times"]),
        (fio_3("soon /a read 5 0"), ["line 3: ", "time in microseconds is \"soon\"", ""]),
        (dxt("X_POSIX 0 write 0 0 1 0.1"), ["line 3: ", "7 columns of the 8", ""]),
        (dxt("X_STDIO 0 write 0 0 1 0.1 0.2"), ["line 3: ", "X_STDIO", "known: X_POSIX"]),
        (dxt("X_POSIX 0 append 0 0 1 0.1 0.2"), ["line 3: ", "append", "neither read nor write"]),
        (dxt("X_POSIX 0 write 0 0 1 soon 0.2"), ["line 3: ", "soon", "seconds such as"]),
        (dxt("X_POSIX 0 write 0 0 1 0.1 0.2 more"), ["line 3: ", "more", "not an OST"]),
        (
            refuse("# darshan log version: 3\nX_POSIX 0 write 0 0 1 0.1 0.2"),
            ["line 2: ", "before any", "file_name"],
        ),
    ] {
        for part in parts {
            assert!(error.contains(part), "{part:?} is not in {error:?}");
        }
    }
}

fn request() -> impl Strategy<Value = ImportedRequest> {
    let access = prop_oneof![Just(Access::Read), Just(Access::Write)];
    (0..1_000_000_u64, 0..100_000_u64, 0..4_u32, 0..3_u32, access, 0..1_u64 << 40, 1..1_u64 << 24)
        .prop_map(|(at, took, client, file, access, start, length)| ImportedRequest {
            at: Timestamp(at * 100_000),
            took: Nanos(took * 100_000),
            client: ClientId(client),
            file: FileIndex(file),
            access,
            range: ByteRange::new(Offset(start), Bytes(length)),
        })
}

/// As `darshan-dxt-parser` prints: file by file and rank by rank.
fn print_dxt(requests: &[ImportedRequest]) -> String {
    let mut text = String::from("# darshan log version: 3.41\n");
    for (file, rank) in (0..3).flat_map(|file| (0..4).map(move |rank| (file, rank))) {
        text += &format!("\n# DXT, file_id: {file}, file_name: /f{file}\n");
        text += &format!("# DXT, rank: {rank}, hostname: h\n");
        let own = requests.iter().filter(|r| (r.file.0, r.client.0) == (file, rank));
        for (segment, request) in own.enumerate() {
            let word = if request.access == Access::Read { "read" } else { "write" };
            let seconds = |ns: u64| format!("{}.{:04}", ns / 1_000_000_000, ns / 100_000 % 10_000);
            text += &format!(
                "{:>8}{rank:>8}{word:>7}{segment:>9}{:>16}{:>16}{:>12}{:>12}\n",
                "X_POSIX",
                request.range.start.0,
                request.range.length().0,
                seconds(request.at.0),
                seconds(request.at.0 + request.took.0),
            );
        }
    }
    text
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn printed_accesses_come_back_through_text_and_trace(requests in vec(request(), 0..60)) {
        let imported = import(&print_dxt(&requests));
        let lives = lives_of(&trace_of(&imported));
        let key = |at: u64, took: u64, client: &str, file: &str, is_read: bool, range: ByteRange|
            (at, took, client.to_owned(), file.to_owned(), is_read, range.start.0, range.end.0);
        let mut expected: Vec<_> = requests.iter().map(|r| {
            let (client, file) = (format!("rank {} h", r.client.0), format!("/f{}", r.file.0));
            key(r.at.0, r.took.0, &client, &file, r.access == Access::Read, r.range)
        }).collect();
        let mut found: Vec<_> = lives.iter().map(|life| {
            let request = life.request;
            let (client, file) = (
                &imported.clients[request.client.0 as usize], &imported.files[request.file.0 as usize]
            );
            key(life.arrived.0, life.latency().unwrap().0, client, file, request.access == Access::Read, request.range)
        }).collect();
        expected.sort();
        found.sort();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn any_text_is_imported_or_refused_with_a_line_that_exists(lines in vec(line(), 0..12), head in 0..4_usize) {
        let head = ["fio version 2 iolog\n", "fio version 3 iolog\n", "# DXT, file_id: 1, file_name: f\n", ""][head];
        let text = format!("{head}{}", lines.join("\n"));
        import_any(text.as_bytes());
    }
}

/// Lines made of words that occur, and of any characters.
fn line() -> impl Strategy<Value = String> {
    const WORDS: &[&str] = &[
        "/a",
        "add",
        "open",
        "close",
        "read",
        "write",
        "sync",
        "trim",
        "wait",
        "0",
        "1",
        "8192",
        "18446744073709551615",
        "-1",
        "X_POSIX",
        "X_MPIIO",
        "0.5",
        "# DXT, rank: 1, hostname: h",
        "[1]",
        "N/A",
    ];
    let words = vec(proptest::sample::select(WORDS), 0..10).prop_map(|words| words.join(" "));
    prop_oneof![4 => words, 1 => "\\PC{0,40}"]
}
