//! The drop-in as a C program meets it: programs compiled against its headers, run under every
//! algorithm. Each behaviour that AGIOS was seen to have and that must not be is a program.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;

use tempfile::TempDir;

const ALGORITHMS: [&str; 11] = [
    "MLF",
    "aIOLi",
    "SJF",
    "TO",
    "TO-agg",
    "SW",
    "NOOP",
    "TWINS",
    "WFQ",
    "DYN_TREE",
    "ARMED_BANDIT",
];

/// A folder with compiled programs and configuration files.
struct Bench {
    folder: TempDir,
}

impl Bench {
    fn new() -> Self {
        Self { folder: TempDir::new().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Compiles one of `tests/programs` against `<agios.h>`.
    fn compile(&self, name: &str) -> PathBuf {
        self.compile_as(name, &["-std=gnu11"], &Link::Shared, "include")
    }

    fn compile_as(&self, name: &str, options: &[&str], link: &Link, headers: &str) -> PathBuf {
        let program = self.path(name);
        let mut cc = Command::new("cc");
        cc.args(["-Wall", "-Wextra", "-Werror", "-O2", "-pthread"]).args(options);
        cc.arg("-I").arg(crate_folder().join(headers));
        cc.arg(crate_folder().join("tests/programs").join(name).with_extension("c"));
        cc.arg("-o").arg(&program);
        match link {
            Link::Shared => cc.arg("-L").arg(libraries()).arg("-lagios"),
            Link::Static => cc.arg(libraries().join("libagios.a")).args(["-ldl", "-lm", "-lgcc_s"]),
        };
        succeeded(&mut cc);
        program
    }

    /// A configuration with this algorithm and these further lines, and weights 3 and 1.
    fn configuration(&self, algorithm: &str, more: &str) -> PathBuf {
        let weights = self.path("weights");
        std::fs::write(&weights, "3\n1\n").unwrap();
        let text = format!(
            "library_options:\n{{\n\tdefault_algorithm = \"{algorithm}\" ;\n\twfq_conf = \"{}\"\n\
             waiting_time = 900000\naioli_quantum = 65536\nmlf_quantum = 8192\nSW_window = 60000\n\
             twins_window = 200\n\t{more}\n}};\n",
            weights.display()
        );
        self.write(&format!("{algorithm}.conf"), &text)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Compiles a program once and runs it under each of the algorithms.
    fn run_under(&self, name: &str, algorithms: &[&str]) {
        let program = self.compile(name);
        for algorithm in algorithms {
            succeeded(command(&program).arg(self.configuration(algorithm, "")));
        }
    }
}

enum Link {
    Shared,
    Static,
}

fn crate_folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Where cargo puts the libraries: beside the tests.
fn libraries() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let test = std::env::current_exe().unwrap();
        let folder = test.parent().unwrap().to_owned();
        assert!(folder.join("libagios.so").exists(), "no libagios.so in {}", folder.display());
        folder
    })
}

fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env("LD_LIBRARY_PATH", libraries());
    command
}

/// Runs to the end; fails with what was said if it does not end well.
fn succeeded(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{said}", output.status);
    output
}

/// Standard error of a run that ended well.
fn said(command: &mut Command) -> String {
    String::from_utf8(succeeded(command).stderr).unwrap()
}

fn without(left_out: &str) -> Vec<&'static str> {
    ALGORITHMS.into_iter().filter(|algorithm| *algorithm != left_out).collect()
}

#[test]
fn an_overwrite_keeps_the_new_data_and_a_read_finds_the_write_before_it() {
    // NOOP promises no order, here as in AGIOS.
    Bench::new().run_under("order", &without("NOOP"));
}

#[test]
fn an_idle_library_burns_no_core() {
    Bench::new().run_under("idle", &ALGORITHMS);
}

#[test]
fn a_request_right_after_the_start_is_answered_in_each_of_sixty_processes() {
    let bench = Bench::new();
    let ping = bench.compile("ping");
    let configuration = bench.configuration("SJF", "");
    let start = || command(&ping).arg(&configuration).stderr(Stdio::piped()).spawn().unwrap();
    for _ in 0..6 {
        let running: Vec<Child> = (0..10).map(|_| start()).collect();
        for child in running {
            let output = child.wait_with_output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{}: {said}", output.status);
        }
    }
    bench.run_under("ping", &ALGORITHMS);
}

#[test]
fn requests_of_any_size_are_answered_and_those_without_meaning_refused() {
    Bench::new().run_under("sizes", &ALGORITHMS);
}

#[test]
fn cancel_takes_exactly_the_request_that_is_named() {
    Bench::new().run_under("cancel", &without("NOOP"));
}

#[test]
fn what_is_not_in_the_call_back_of_its_neighbours_can_still_be_cancelled() {
    let bench = Bench::new();
    let program = bench.compile("long_batch");
    let weights = bench.write("weights", "3 1");
    for algorithm in without("NOOP") {
        for bound in [1, 65_536] {
            let text = format!(
                "library_options: {{ default_algorithm = \"{algorithm}\"; wfq_conf = \"{}\";\
                 aioli_quantum = 1048576; mlf_quantum = 1048576; twins_window = 200 }}\n\
                 forebay: {{ in_flight_max = {bound} }}\n",
                weights.display()
            );
            succeeded(command(&program).arg(bench.write("long.conf", &text)));
        }
    }
}

#[test]
fn the_library_ends_while_others_add_cancel_and_release() {
    Bench::new().run_under("ending", &["TO", "aIOLi"]);
}

#[test]
fn start_and_end_may_come_in_any_order() {
    let bench = Bench::new();
    let restart = bench.compile("restart");
    let configuration = bench.configuration("SJF", "");
    let said = said(command(&restart).args([&configuration, &bench.path("absent")]));
    for part in [
        "absent: No such file",
        "the first call-back is NULL",
        "max_queue_id is -1",
        "is running already",
        "2 requests were still queued",
        "from inside a call-back",
        "fork",
    ] {
        assert!(said.contains(part), "nothing about {part:?}:\n{said}");
    }
}

#[test]
fn a_release_costs_the_same_however_many_requests_are_out() {
    Bench::new().run_under("scaling", &["TO", "NOOP"]);
}

#[test]
fn names_of_files_are_forgotten() {
    Bench::new().run_under("names", &["SJF"]);
}

#[test]
fn queue_and_depth_are_bounded() {
    let bench = Bench::new();
    let bounded = bench.compile("bounded");
    for algorithm in ["TO", "aIOLi", "WFQ"] {
        let weights = bench.write("weights", "3 1");
        let text = format!(
            "library_options: {{ default_algorithm = \"{algorithm}\"; wfq_conf = \"{}\" }}\n\
             forebay: {{ queue_requests_max = 10; in_flight_max = 3 }}",
            weights.display()
        );
        succeeded(command(&bounded).arg(bench.write("bounded.conf", &text)));
    }
}

#[test]
fn values_at_the_ends_of_their_ranges_serve() {
    let bench = Bench::new();
    let ping = bench.compile("ping");
    for (algorithm, options) in [
        ("aIOLi", "aioli_quantum = 512; waiting_time = 0"),
        ("aIOLi", "aioli_quantum = 0x40000000; waiting_time = 2147483647"),
        ("MLF", "mlf_quantum = 4096"),
        ("MLF", "mlf_quantum = 1073741824L"),
        ("SW", "SW_window = 1"),
        ("SW", "SW_window = 60000"),
        ("TWINS", "twins_window = 1"),
    ] {
        for bounds in [(1, 1), (1 << 24, 1 << 20)] {
            let (queue, in_flight) = bounds;
            let text = format!(
                "library_options: {{ default_algorithm = \"{algorithm}\"; {options} }}\n\
                 forebay: {{ queue_requests_max = {queue}; in_flight_max = {in_flight} }}"
            );
            succeeded(command(&ping).arg(bench.write("ends.conf", &text)));
        }
    }
}

#[test]
fn metrics_are_those_of_the_requests() {
    Bench::new().run_under("metrics", &["TO", "NOOP"]);
}

#[test]
fn queues_leave_as_the_algorithm_says() {
    let bench = Bench::new();
    let queues = bench.compile("queues");
    for (algorithm, how) in [("WFQ", "wfq"), ("SW", "sw"), ("TWINS", "twins")] {
        let configuration = bench.configuration(algorithm, "");
        let text = std::fs::read_to_string(&configuration).unwrap();
        std::fs::write(&configuration, text.replace("twins_window = 200", "twins_window = 2000"))
            .unwrap();
        succeeded(command(&queues).arg(configuration).arg(how));
    }
}

#[test]
fn a_service_with_a_lock_and_a_thread_for_each_request_runs_unchanged() {
    Bench::new().run_under("threads", &without("NOOP"));
}

#[test]
fn threads_that_add_cancel_release_and_measure_lose_nothing() {
    let bench = Bench::new();
    let storm = bench.compile("storm");
    for algorithm in without("NOOP") {
        let configuration = bench.configuration(algorithm, "");
        succeeded(command(&storm).arg(&configuration));
        // With a queue that is full again and again, and few that may be with the program.
        let bounds = "\nforebay: { queue_requests_max = 12; in_flight_max = 5 }\n";
        let text = std::fs::read_to_string(&configuration).unwrap() + bounds;
        succeeded(command(&storm).arg(bench.write("storm.conf", &text)));
    }
}

#[test]
fn requests_may_bring_their_own_call_backs() {
    let bench = Bench::new();
    let options = ["-std=gnu11"];
    let program = bench.compile_as("gekkofs", &options, &Link::Shared, "include/agios-gekkofs");
    for algorithm in ALGORITHMS {
        succeeded(command(&program).arg(bench.configuration(algorithm, "")));
    }
}

#[test]
fn valgrind_finds_nothing() {
    let bench = Bench::new();
    let configuration = bench.configuration("aIOLi", "");
    for (name, argument) in [("threads", Some("5")), ("cancel", None)] {
        let mut valgrind = command(Path::new("valgrind"));
        valgrind.args(["--quiet", "--error-exitcode=9", "--leak-check=full"]);
        valgrind.arg(bench.compile(name)).arg(&configuration).args(argument);
        succeeded(&mut valgrind);
    }
}

#[test]
fn both_headers_are_c11_and_cxx17() {
    let bench = Bench::new();
    let source =
        bench.write("header.c", "#include <agios.h>\nint main(void) { agios_exit(); return 0; }\n");
    for headers in ["include", "include/agios-gekkofs"] {
        for (compiler, language) in [("cc", "-std=c11"), ("c++", "-std=c++17")] {
            let mut cc = Command::new(compiler);
            cc.args(["-Wall", "-Wextra", "-Werror", "-pedantic", language]);
            cc.args(["-x", if compiler == "cc" { "c" } else { "c++" }]).arg(&source);
            cc.arg("-I").arg(crate_folder().join(headers));
            cc.arg("-L").arg(libraries()).arg("-lagios").arg("-o").arg(bench.path("header"));
            succeeded(&mut cc);
            succeeded(&mut command(&bench.path("header")));
        }
    }
}

#[test]
fn the_static_library_serves_as_well() {
    let bench = Bench::new();
    let ping = bench.compile_as("ping", &["-std=gnu11"], &Link::Static, "include");
    succeeded(Command::new(ping).arg(bench.configuration("aIOLi", "")));
}

#[test]
fn a_trace_has_a_line_for_each_arrival() {
    let bench = Bench::new();
    let metrics = bench.compile("metrics");
    let prefix = bench.path("trace");
    let more = format!(
        "trace = true; trace_file_prefix = \"{}\"; trace_file_sufix = \"out\"; max_trace_buffer_size = 64",
        prefix.display()
    );
    for (algorithm, number) in [("TO", 1), ("NOOP", 2)] {
        succeeded(command(&metrics).arg(bench.configuration(algorithm, &more)));
        let trace = std::fs::read_to_string(bench.path(&format!("trace.{number}.out"))).unwrap();
        let lines: Vec<&str> = trace.lines().map(|line| line.split_once('\t').unwrap().1).collect();
        assert_eq!(lines, ["a\tR\t0\t10", "a\tR\t30\t20", "b\tW\t500\t90"], "{trace}");
    }
}

#[test]
fn a_configuration_that_cannot_be_used_ends_the_start() {
    let bench = Bench::new();
    let ping = bench.compile("ping");
    let bad_weights = bench.write("bad-weights", "3\nheavy\n");
    let few_weights = bench.write("few-weights", "3\n");
    let wfq = |weights: &Path| {
        format!("default_algorithm = \"WFQ\"; wfq_conf = \"{}\"", weights.display())
    };
    for (options, part) in [
        ("trace = false".to_owned(), "lacks default_algorithm"),
        ("default_algorithm = \"CFQ\"".to_owned(), "a.conf:2: default_algorithm = \"CFQ\""),
        (wfq(&bad_weights), "bad-weights: the weight of queue 1 is heavy"),
        (wfq(&few_weights), "few-weights: holds 1 weights"),
        (wfq(&bench.path("none")), "none: No such file"),
        ("default_algorithm = ".to_owned(), "a.conf:3:"),
    ] {
        let text = format!("library_options: {{\n{options}\n}}");
        let output = command(&ping).arg(bench.write("a.conf", &text)).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{options}");
        assert!(said.contains(part) && said.starts_with("agios: "), "{options}: {said}");
    }
    let said = said(
        command(&ping)
            .arg(bench.write("b.conf", "library_options: { default_algorithm = \"MLF\" }")),
    );
    assert!(said.contains("does not set mlf_quantum (default 8192 bytes)"), "{said}");
}

#[test]
fn the_shared_library_has_the_name_and_the_symbols_of_agios() {
    let library = std::fs::read(libraries().join("libagios.so")).unwrap();
    let holds = |text: &str| library.windows(text.len()).any(|window| window == text.as_bytes());
    for name in [
        "\0libagios.so\0",
        "\0agios_init\0",
        "\0agios_exit\0",
        "\0agios_add_request\0",
        "\0agios_release_request\0",
        "\0agios_cancel_request\0",
        "\0agios_get_metrics_and_reset\0",
        "\0agios_gekkofs_init\0",
        "\0agios_gekkofs_add_request\0",
    ] {
        assert!(holds(name), "{name:?}");
    }
}
