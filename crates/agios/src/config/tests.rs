//! Tests of the configuration file.

use proptest::prelude::*;
use tempfile::TempDir;

use super::*;

const FULL: &str = r#"
library_options:
{
	# comment
	trace = false ;
	trace_file_prefix = "/tmp/agios_tracefile"
	trace_file_sufix = "out"
	max_trace_buffer_size = 32768 ;
	waiting_time = 800000
	aioli_quantum = 65536
	mlf_quantum = 16384
	SW_window = 250 #ms
	twins_window = 2000
	performance_values = 5
	default_algorithm = "aIOLi" ;
	select_algorithm_period = 1000
	select_algorithm_min_reqnumber=1
	enable_SW = false ;
	starting_algorithm = "SJF" ;
};
"#;

fn parse(text: &str) -> Result<Loaded, ConfigError> {
    Config::parse(text.as_bytes(), Path::new("a.conf"), 2)
}

fn options(text: &str) -> String {
    format!("library_options: {{\n{text}\n}}")
}

fn complaint(text: &str) -> String {
    parse(&options(text)).expect_err(text).to_string()
}

#[test]
fn a_file_of_agios_is_read_whole_and_in_its_units() {
    let loaded = parse(FULL).unwrap();
    let expected = Config {
        algorithm: Algorithm::Aioli,
        waiting_time: Nanos(800_000),
        aioli_quantum: Bytes::kib(64),
        mlf_quantum: Bytes::kib(16),
        sw_window: Nanos::millis(250),
        twins_window: Nanos::micros(2_000),
        weights: vec![],
        trace: None,
        queue_requests_max: 1 << 20,
        in_flight_max: 1 << 16,
        is_rotating: true,
    };
    assert_eq!(loaded, Loaded { config: expected, remarks: vec![] });
}

#[test]
fn bounds_stand_in_a_group_of_their_own() {
    let text = "library_options: { default_algorithm = \"TO\" }\n\
                forebay: { queue_requests_max = 10; in_flight_max = 3 }";
    let config = parse(text).unwrap().config;
    assert_eq!((config.queue_requests_max, config.in_flight_max), (10, 3));
}

#[test]
fn a_default_that_matters_is_told_and_another_is_not() {
    let remarks = |text: &str| parse(&options(text)).unwrap().remarks;
    assert_eq!(
        remarks("default_algorithm = \"aIOLi\""),
        [
            "a.conf: does not set waiting_time (default 900000 ns), aioli_quantum (default 8192 bytes)"
        ]
    );
    assert_eq!(remarks("default_algorithm = \"TO\""), [""; 0]);
}

#[test]
fn what_nobody_reads_is_told_with_its_line() {
    let text = "user_info: { stripe_size = 1 }\n\
                library_options: { default_algorithm = \"TO\"\n aioli_quantm = 9 }";
    let remarks = parse(text).unwrap().remarks;
    assert_eq!(
        remarks,
        [
            "a.conf:3: aioli_quantm = 9: is no key, nobody reads it",
            "a.conf:1: nobody reads user_info"
        ]
    );
}

#[test]
fn bad_values_are_refused_with_line_key_value_and_remedy() {
    let algorithm = "default_algorithm = \"TO\"\n";
    for (text, expected) in [
        (
            "waiting_time = -1",
            "a.conf:3: waiting_time = -1: write an integer from 0 to 2147483647 ns",
        ),
        ("mlf_quantum = \"8\"", "a.conf:3: mlf_quantum = \"8\": write an integer from 4096 to"),
        ("SW_window = 1.5", "a.conf:3: SW_window = 1.5: write an integer from 1 to 60000 ms"),
        ("trace = 1", "a.conf:3: trace = 1: write true or false"),
        ("trace = true", "a.conf: library_options lacks trace_file_prefix; write a path"),
        (
            "starting_algorithm = \"X\"",
            "a.conf:3: starting_algorithm = \"X\": \"X\" is no algorithm",
        ),
        ("trace = true enable", "a.conf:4: enable is followed by neither = nor :"),
    ] {
        let found = complaint(&format!("{algorithm}{text}"));
        assert!(found.starts_with(expected), "{found}");
    }
    assert!(complaint("trace = false").contains("lacks default_algorithm; name one of MLF"));
    assert!(complaint("default_algorithm = 3").contains("is an integer; write a name"));
    for name in ["DYN_TREE", "ARMED_BANDIT"] {
        let text =
            options(&format!("default_algorithm = \"{name}\"")) + "forebay: { rotating = false }";
        let config = parse(&text).unwrap().config;
        assert_eq!((config.algorithm, config.is_rotating), (Algorithm::Auto, false));
    }
    assert!(complaint("default_algorithm = \"WFQ\"").contains("lacks wfq_conf; write a path"));
    assert!(parse("").unwrap_err().to_string().contains("has no group library_options"));
    assert!(parse("library_options = 1").unwrap_err().to_string().contains("write a group"));
}

#[test]
fn everything_that_is_wrong_is_told_at_once() {
    let found = complaint("default_algorithm = \"X\"\nSW_window = 0\ntwins_window = 0");
    assert_eq!(found.lines().count(), 3, "{found}");
}

#[test]
fn a_file_that_is_named_must_exist_and_the_default_one_need_not() {
    let folder = TempDir::new().unwrap();
    let absent = folder.path().join("agios.conf");
    let error = Config::load(Some(&absent), &absent, 0).unwrap_err().to_string();
    assert!(error.contains("agios.conf: No such file") && error.contains("NULL for"), "{error}");
    let loaded = Config::load(None, &absent, 0).unwrap();
    assert_eq!(loaded.config.algorithm, Algorithm::Sjf);
    assert!(loaded.remarks[0].contains("does not exist"), "{:?}", loaded.remarks);
    std::fs::write(&absent, options("default_algorithm = \"TO\"")).unwrap();
    assert_eq!(Config::load(None, &absent, 0).unwrap().config.algorithm, Algorithm::To);
}

#[test]
fn weights_come_from_the_file_that_is_named() {
    let folder = TempDir::new().unwrap();
    let weights = folder.path().join("weights");
    let text = format!("default_algorithm = \"WFQ\"\nwfq_conf = \"{}\"", weights.display());
    assert!(complaint(&text).contains("wfq_conf names the file of weights"));
    std::fs::write(&weights, "3 x").unwrap();
    assert!(complaint(&text).contains("weights: the weight of queue 1 is x; write"));
    std::fs::write(&weights, "3\n1\n").unwrap();
    assert_eq!(parse(&options(&text)).unwrap().config.weights, [3, 1]);
}

#[test]
fn a_huge_file_is_refused() {
    let folder = TempDir::new().unwrap();
    let huge = folder.path().join("agios.conf");
    std::fs::write(&huge, vec![b' '; FILE_BYTES_MAX as usize + 1]).unwrap();
    let error = Config::load(Some(&huge), &huge, 0).unwrap_err().to_string();
    assert!(error.contains("larger than"), "{error}");
}

proptest! {
    #[test]
    fn any_number_for_any_key_is_taken_or_refused(
        key in prop::sample::select(vec![
            "waiting_time", "aioli_quantum", "mlf_quantum", "SW_window", "twins_window",
            "max_trace_buffer_size", "performance_values", "select_algorithm_period",
        ]),
        number in any::<i64>(),
    ) {
        let text = options(&format!("default_algorithm = \"TO\"\n{key} = {number}"));
        if let Err(error) = parse(&text) {
            let expected = format!("a.conf:3: {key} = {number}: write");
            prop_assert!(error.to_string().starts_with(&expected), "{}", error);
        }
    }
}
