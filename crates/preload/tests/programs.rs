//! Real programs with the library and without: the same output, the same files.

#[path = "../../client/tests/forwarder/mod.rs"]
mod forwarder;
mod lab;

use std::sync::atomic::Ordering;

use lab::{Door, Lab, succeeded};

/// Runs a shell script natively and through both kinds of forwarder; it prints and leaves the same.
fn same_everywhere(needs: &str, script: &str) {
    let found =
        std::process::Command::new("sh").args(["-c", &format!("command -v {needs}")]).output();
    assert!(found.expect("sh").status.success(), "{needs} is needed for this test: install it");
    let without = Lab::new(Door::None);
    let expected = run(&without, script);
    for door in [Door::Unix, Door::Tcp] {
        let with = Lab::new(door);
        assert_eq!(run(&with, script), expected, "output over {door:?}");
        let (got, expected) = (with.content(), without.content());
        assert!(
            got.keys().eq(expected.keys()),
            "files over {door:?}: {:?}, not {:?}",
            got.keys(),
            expected.keys()
        );
        for (path, content) in &expected {
            assert!(got[path] == *content, "{} over {door:?}", path.display());
        }
        let forwarder = with.forwarder.as_ref().expect("a forwarder");
        let moved = forwarder.count(|state| &state.bytes_read)
            + forwarder.count(|state| &state.bytes_written);
        assert!(moved > 0, "something was forwarded over {door:?}");
        forwarder.wait_until("all files are closed", |state| {
            state.files_open.load(Ordering::SeqCst) == 0
        });
    }
}

fn run(lab: &Lab, script: &str) -> String {
    // Not interesting to write in many sizes: text whose every line differs.
    let text: String = (0..40_000).map(|n| format!("line {n} of the text\n")).collect();
    std::fs::write(lab.data().join("text"), text).expect("write");
    let mut command = lab.command("bash");
    command.args(["-e", "-o", "pipefail", "-c", script]).env("TZ", "UTC").env("HOME", lab.data());
    let output = command.output().expect("bash");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    succeeded(&output)
}

#[test]
fn copying_in_every_block_size() {
    same_everywhere(
        "dd",
        "dd if=text of=one bs=1M status=none
         dd if=text of=two bs=777 status=none
         dd if=text of=three bs=4k skip=3 seek=5 count=7 conv=notrunc status=none
         dd if=text of=three bs=1k seek=2 count=1 oflag=append conv=notrunc status=none
         dd if=text of=four bs=64k conv=fsync status=none
         dd if=text of=five ibs=512 obs=9000 status=none
         truncate -s 5000 two
         cat text one two >six; cat <text >>six
         cp text seven; cp --sparse=always --reflink=never text eight
         sha256sum *; wc *; cmp text four",
    );
}

#[test]
fn shell_redirections_and_pipelines() {
    same_everywhere(
        "bash",
        r#"exec 5>log
           for n in 1 2 3; do echo "line $n" >&5; (echo "sub $n" >&5); done
           echo end >&5; exec 5>&-
           { echo a; cat log; head -c 100 text; } >collected
           while read -r word number rest; do
             case $number in *99) echo "$number";; esac
           done <text >numbers
           exec 6<>both; echo written >&6; exec 6<both; read -r back <&6; echo "$back"
           cat <<END >here
           $(wc -l <text) lines
END
           sort -r text | uniq | tail -3 | tee last >>log
           for n in $(seq 20); do echo "$n" >>appended & done; wait
           sort -n appended; cat last log here collected numbers | cksum
           (trap 'echo trapped >>log' EXIT; echo in >>log); rm appended; cat log"#,
    );
}

#[test]
fn python_with_threads_processes_and_mappings() {
    let script = r#"
import mmap, multiprocessing, os, subprocess, sys, threading

def part(n):
    with open("parts", "r+b", buffering=0) as f:
        f.seek(n * 1000)
        return f.write(bytes([n]) * 1000)

def main():
    open("parts", "wb").close()
    with multiprocessing.Pool(4) as pool:
        print(sum(pool.map(part, range(50))))
    data = open("parts", "rb").read()
    print(len(data), all(data[n * 1000:(n + 1) * 1000] == bytes([n]) * 1000 for n in range(50)))
    with open("parts", "r+b") as f, mmap.mmap(f.fileno(), 0) as m:
        m[0:5] = b"MMAP!"
        print(os.pread(f.fileno(), 7, 0))
        os.pwrite(f.fileno(), b"pwrite", 100)
        print(m[100:106])
    fd = os.open("shared", os.O_RDWR | os.O_CREAT)
    for word in ("one ", "two ", "three "):
        os.write(fd, b"parent ")
        subprocess.run([sys.executable, "-c", f"import os; os.write({fd}, b'{word}')"], pass_fds=[fd], check=True)
    subprocess.run(["cat"], stdin=open("text"), stdout=fd, check=True)
    print(os.lseek(fd, 0, 1), os.pread(fd, 40, 0))
    print(subprocess.run(["head", "-c", "20", "text"], capture_output=True).stdout)
    os.close(fd)
    threads = [threading.Thread(target=part, args=(n,)) for n in range(50, 60)]
    [t.start() for t in threads]; [t.join() for t in threads]
    with open("lines", "w") as f:
        for n in range(1000): print("line", n, file=f)
        f.flush(); os.fsync(f.fileno())
    print(sum(1 for _ in open("lines")), os.stat("parts").st_size)
    f = os.open("lines", os.O_RDWR); os.ftruncate(f, 10); os.posix_fallocate(f, 0, 100); os.close(f)

if __name__ == "__main__":
    main()
"#;
    same_everywhere(
        "python3",
        &format!("cat >program.py <<'END'\n{script}\nEND\npython3 program.py"),
    );
}

#[test]
fn archives_keep_their_content() {
    same_everywhere(
        "tar",
        "mkdir tree; for n in $(seq 50); do head -c $((n * 997)) text >tree/$n; done
         tar --sort=name --mtime=@0 --owner=0 --group=0 -cf tree.tar tree; mkdir out; tar -xf tree.tar -C out
         tar -czf - tree | tar -xzf - -C out; diff -r tree out/tree; tar -tf tree.tar | sort; cksum tree.tar
         gzip -nk text; gzip -dc text.gz | cmp - text; find . -type f | sort | xargs cksum; rm -r tree.tar out",
    );
}

#[test]
fn databases_keep_their_locks() {
    same_everywhere(
        "sqlite3",
        "sqlite3 base 'create table t (n integer primary key, x text)'
         for writer in 1 2 3 4; do
           (for n in $(seq 10); do
              sqlite3 -cmd '.timeout 20000' base \"insert into t (x) values ('$writer/$n')\"
            done) &
         done; wait
         sqlite3 base 'select count(*), count(distinct x) from t; pragma integrity_check; vacuum; pragma integrity_check'
         sqlite3 base 'pragma journal_mode = wal; insert into t (x) select x from t; select count(*) from t'
         sqlite3 base 'pragma journal_mode = delete' 'pragma integrity_check' 'select x from t order by x' ; rm base",
    );
}

#[test]
fn repositories_and_builds() {
    same_everywhere(
        "git",
        r#"export GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_DATE='2000-01-01T00:00:00Z' GIT_COMMITTER_DATE='2000-01-01T00:00:00Z'
           git init -q -b main repo; cd repo; git config user.name n; git config user.email e@x
           for n in $(seq 5); do head -c $((n * 9000)) ../text >file$n; git add .; git commit -qm "commit $n"; done
           git repack -qad; git fsck --strict --no-progress; git log --format=%H
           cd ..; git clone -q --no-hardlinks repo copy; git -C copy fsck --no-progress; diff repo/file5 copy/file5
           cat >hello.c <<'END'
#include <stdio.h>
int main(void) { puts("hello"); return 0; }
END
           gcc -o hello hello.c; ./hello; for n in 1 2 3 4; do cp hello.c unit$n.c; done
           ls unit*.c | xargs -P 4 -n 1 gcc -c; ar rcD units.a unit1.o; ls
           rm -rf repo copy hello"#,
    );
}

#[test]
fn listing_pays_nothing() {
    let lab = Lab::new(Door::Unix);
    std::fs::write(lab.data().join("file"), "content").expect("write");
    succeeded(&lab.command("ls").args(["-l", "."]).output().expect("ls"));
    succeeded(&lab.command("stat").arg("file").output().expect("stat"));
    let forwarder = lab.forwarder.as_ref().expect("a forwarder");
    assert_eq!(forwarder.count(|state| &state.sessions), 0, "nobody connected");
}

#[test]
fn the_report_says_what_was_and_was_not_forwarded() {
    let lab = Lab::new(Door::Unix);
    std::fs::write(lab.data().join("file"), "content").expect("write");
    let mut command = lab.command("python3");
    let script = "import os, mmap; f = os.open('file', os.O_RDWR); os.read(f, 7); os.write(f, b'more'); \
                  mmap.mmap(f, 0); os.fsync(f)";
    let output = command.args(["-c", script]).env("FOREBAY_REPORT", "1").output().expect("python3");
    succeeded(&output);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.starts_with("forebay: python3["), "{said}");
    assert!(
        said.contains("forwarded 1 reads (7 bytes), 1 writes (4 bytes), 1 other calls; not forwarded: 1 mapped"),
        "{said}"
    );
    let forwarder = lab.forwarder.as_ref().expect("a forwarder");
    assert_eq!(forwarder.count(|state| &state.byes), 1);
}

#[test]
fn every_program_is_reported_even_if_nothing_could_be_forwarded() {
    let lab = Lab::new(Door::Unix);
    std::fs::write(lab.data().join("file"), "content").expect("write");
    let forwarder = lab.forwarder.as_ref().expect("a forwarder");
    let copying = "import os; f = os.open('file', os.O_RDWR); os.copy_file_range(f, f, 1, 0, 3)";
    for (program, arguments, expected) in [
        (
            "sed",
            &["s/x/y/", "file"][..],
            "forwarded 0 reads (0 bytes), 0 writes (0 bytes), 0 other calls; not forwarded: 1 opened by stdio",
        ),
        ("python3", &["-c", copying], "not forwarded: 1 copied by the kernel"),
        // It closes standard error before it ends.
        (
            "cp",
            &["--reflink=never", "file", "copy"],
            "forwarded 1 reads (7 bytes), 1 writes (7 bytes)",
        ),
    ] {
        let output = lab
            .command(program)
            .args(arguments)
            .env("FOREBAY_REPORT", "1")
            .output()
            .expect(program);
        succeeded(&output);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(expected), "{said}");
    }
    assert_eq!(forwarder.count(|state| &state.byes), 3);
}
