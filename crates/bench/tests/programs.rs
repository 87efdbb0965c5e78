//! The plain programs that suites start, run natively: what they say of the data must be true.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Runs the reader or writer to its end, with no gate to wait at.
fn strides(mode: &str, path: &Path, numbers: [u64; 5]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay-bench-strides"));
    command.arg(mode).arg(path).args(numbers.map(|number| number.to_string()));
    command.stdin(Stdio::null()).output().expect("it was built with this test")
}

/// Seed, bytes of a block, first, every, count.
const WHOLE: [u64; 5] = [7, 4096, 0, 1, 12];

#[test]
fn strides_of_many_writers_make_one_whole_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    for first in 0..4 {
        assert!(strides("write", &path, [7, 4096, first, 4, 3]).status.success());
    }
    let read = strides("read", &path, WHOLE);
    assert_eq!((read.status.success(), &read.stdout[..]), (true, &b"ready\ndone\n"[..]));
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 12 * 4096);
    // The content is the same for blocks of any size.
    assert!(strides("read", &path, [7, 1024, 3, 5, 9]).status.success());
}

#[test]
fn one_wrong_byte_is_found_and_placed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    assert!(strides("write", &path, WHOLE).status.success());
    std::fs::OpenOptions::new()
        .write(true)
        .open(&path)
        .unwrap()
        .write_all_at(&[0xaa], 5003)
        .unwrap();
    let read = strides("read", &path, WHOLE);
    let said = String::from_utf8_lossy(&read.stderr).into_owned();
    assert!(!read.status.success() && said.contains("wrong data at offset 5000"), "{said}");
    assert_eq!(read.stdout, b"ready\n");
}

#[test]
fn another_seed_or_a_short_file_is_wrong_data() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    assert!(strides("write", &path, WHOLE).status.success());
    assert!(!strides("read", &path, [8, 4096, 0, 1, 12]).status.success());
    assert!(!strides("read", &path, [7, 4096, 0, 1, 13]).status.success());
}

#[test]
fn nothing_is_read_before_the_gate_opens() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    assert!(strides("write", &path, WHOLE).status.success());
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay-bench-strides"));
    command.arg("read").arg(&path).args(WHOLE.map(|number| number.to_string()));
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    // Spoilt behind its back: had it read already, it would not notice.
    std::fs::File::options().write(true).open(&path).unwrap().set_len(4096).unwrap();
    drop(child.stdin.take());
    assert!(!child.wait().unwrap().success());
}

#[test]
fn the_other_end_of_a_socket_sinks_sends_and_echoes() {
    let folder = tempfile::tempdir().unwrap();
    for mode in ["sink", "source", "echo"] {
        let path = folder.path().join(mode);
        let listener = UnixListener::bind(&path).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_forebay-bench-socket"));
        command.args([mode, &format!("unix:{}", path.display()), "1000", "3"]);
        let mut child = command.spawn().unwrap();
        let (mut stream, _) = listener.accept().unwrap();
        for _ in 0..2 {
            let (sent, received) = match mode {
                "sink" => (3_000, 1),
                "source" => (1, 3_000),
                _ => (1_000, 1_000),
            };
            stream.write_all(&vec![5; sent]).unwrap();
            stream.read_exact(&mut vec![0; received]).unwrap();
        }
        drop(stream);
        assert!(child.wait().unwrap().success(), "{mode}");
    }
}

/// Against the headers as they are, so that a change of an interface is noticed here.
#[test]
fn the_drivers_of_the_library_suite_compile_without_a_word() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    for driver in ["forebay.c", "agios.c"] {
        let mut compile = Command::new("cc");
        compile.args(["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-c", "-o", "/dev/null"]);
        compile.arg("-I").arg(here.join("../capi/include"));
        compile.arg("-I").arg(here.join("../agios/include"));
        compile.arg(here.join("src/library/programs").join(driver));
        let output = compile.output().expect("cc; see scripts/install-deps");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{driver}: {said}");
    }
}
