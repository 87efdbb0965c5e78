//! Real programs, byte for byte: each script runs once natively and once through a forwarder, over
//! a Unix socket and over TCP; exit status, output and everything left on disk must be the same.

use std::path::Path;
use std::process::Output;

use forebay_tests::{Through, compiled, has_commands, natively, report, through, tree};

/// Makes `input/`: text, binary, a sparse file, many small files; the same every time.
const PREPARE: &str = r#"
mkdir -p input/small
seq 1 200000 > input/numbers.txt
head -c 5000000 /dev/zero | openssl enc -aes-128-ctr -K 00112233445566778899aabbccddeeff -iv 00 2>/dev/null > input/noise.bin
truncate -s 3M input/sparse; printf end >> input/sparse
for n in $(seq 1 40); do seq 1 $((n * 37)) > input/small/$n; done
ln -s numbers.txt input/link
"#;

fn same(needs: &[&str], script: &str, forwards_at_least: u64) {
    if !has_commands(&[&["openssl"], needs].concat()) {
        return;
    }
    same_with(script, forwards_at_least, |_| {});
}

/// Runs `script` natively and both ways through a forwarder; `prepare` may add files first.
fn same_with(script: &str, forwards_at_least: u64, prepare: impl Fn(&Path)) {
    let native = tempfile::tempdir().expect("a folder");
    let expected = prepared(native.path(), &prepare, |folder| natively(script, folder));
    assert!(expected.status.success(), "natively: {}", text(&expected));
    let expected_tree = tree(native.path());
    for way in Through::ALL {
        let outer = tempfile::tempdir().expect("a folder");
        let folder = outer.path().join("data");
        std::fs::create_dir(&folder).expect("a fresh name");
        let report_path = outer.path().join("report.json");
        let seen = prepared(&folder, &prepare, |folder| through(way, script, folder, &report_path));
        assert_eq!(seen.status.code(), expected.status.code(), "{way:?}: {}", text(&seen));
        assert_eq!(
            String::from_utf8_lossy(&seen.stdout),
            String::from_utf8_lossy(&expected.stdout),
            "{way:?}"
        );
        let seen_tree = tree(&folder);
        for name in expected_tree.keys().chain(seen_tree.keys()) {
            assert_eq!(seen_tree.get(name), expected_tree.get(name), "{way:?}: {}", name.display());
        }
        let status = &report(&report_path)["status"];
        let forwarded = status["calls"]["accepted"].as_u64().expect("a count");
        assert!(
            forwarded >= forwards_at_least,
            "{way:?}: only {forwarded} calls forwarded: {status}"
        );
    }
}

fn prepared(folder: &Path, prepare: &impl Fn(&Path), run: impl Fn(&Path) -> Output) -> Output {
    let made = natively(PREPARE, folder);
    assert!(made.status.success(), "{}", text(&made));
    prepare(folder);
    run(folder)
}

fn text(output: &Output) -> String {
    format!(
        "{:?}\n{}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

#[test]
fn cp_copies() {
    same(
        &["cp", "cmp"],
        "cp -a input copy; cp --sparse=never --reflink=never input/noise.bin one; cmp one input/noise.bin",
        10,
    );
}

#[test]
fn dd_copies_in_odd_blocks() {
    same(
        &["dd"],
        "dd if=input/noise.bin of=a bs=4096 status=none; dd if=input/noise.bin of=b bs=777 count=3000 skip=11 status=none
         dd if=input/noise.bin of=a bs=1000 seek=3 count=5 conv=notrunc,fsync status=none; dd if=input/numbers.txt of=c bs=3M oflag=append conv=notrunc status=none",
        4000,
    );
}

#[test]
fn tar_packs_and_unpacks() {
    same(
        &["tar", "gzip"],
        "tar --sort=name --mtime=@0 --owner=0 --group=0 -cf all.tar input; mkdir out; tar -C out -xf all.tar; diff -r input out/input; gzip -n < all.tar > all.tar.gz; tar -tzf all.tar.gz; rm all.tar.gz",
        100,
    );
}

/// It reads with `fread`, whose calls inside the C library nobody can hook: they go to the kernel,
/// through a descriptor as good as any.
#[test]
fn sha256sum_sees_the_same_bytes() {
    same(
        &["sha256sum"],
        "find input -type f | sort | xargs sha256sum; sha256sum < input/noise.bin",
        0,
    );
}

#[test]
fn rsync_copies_and_updates() {
    same(
        &["rsync"],
        "rsync -a input/ copy/; echo more >> input/numbers.txt; dd if=/dev/zero of=input/noise.bin bs=1 count=9 seek=4000 conv=notrunc status=none
         rsync -a --checksum --inplace --no-whole-file input/ copy/; diff -r input copy",
        50,
    );
}

#[test]
fn git_clones_and_checks() {
    same(
        &["git"],
        "git -c init.defaultBranch=main init -q repo; cp -r input repo/; cd repo; git config user.name n; git config user.email e; git config gc.auto 0
         git add -A; git commit -qm one; seq 5 > input/numbers.txt; git commit -qam two; cd ..
         git clone -q --no-local repo clone 2>&1; git -C clone fsck --full --strict 2>&1; git -C clone log --format='%H %s'; git -C repo gc -q; git -C repo fsck 2>&1
         diff -r -x .git repo clone; rm -rf repo/.git clone/.git",
        20,
    );
}

#[test]
fn gcc_builds_and_the_result_runs() {
    same(
        &["gcc", "ar", "make"],
        r#"for n in 1 2 3 4 5 6; do echo "int f$n(int x) { return x * $n; }" > f$n.c; done
         echo '#include <stdio.h>
         int f1(int), f6(int); int main(void) { printf("%d\n", f1(2) + f6(3)); return 0; }' > main.c
         printf 'prog: main.o lib.a\n\tgcc -o $@ main.o lib.a\nlib.a: f1.o f2.o f3.o f4.o f5.o f6.o\n\tar rcD $@ $^\n' > Makefile
         make -s -j4; ./prog; gcc -O2 -shared -fPIC -o libf.so f1.c f2.c; nm -D libf.so | grep f1 | cut -c18-; for n in 1 2 3 4 5; do make -s -B -j4; ./prog; done"#,
        10,
    );
}

#[test]
fn sqlite3_keeps_its_locks() {
    same(
        &["sqlite3"],
        "sqlite3 db 'create table t(a integer primary key, b text); pragma journal_mode=delete;'
         for w in 1 2 3 4; do (for n in $(seq 1 25); do sqlite3 -cmd '.timeout 60000' db \"insert into t(b) values('$w-$n')\"; done) & done; wait
         sqlite3 db 'select count(*) from t; pragma integrity_check;'
         sqlite3 wal 'pragma journal_mode=wal; create table t(a); insert into t values(1),(2); select sum(a) from t;'
         (sqlite3 db 'begin exclusive;' '.system sqlite3 db \"select 1\" 2>&1 | grep -c locked') || true
         sqlite3 db 'select b from t order by b' > list; rm -f db wal wal-*",
        20,
    );
}

#[test]
fn python_maps_forks_and_pipes() {
    same(
        &["python3"],
        r#"cat > p.py <<'P'
import hashlib, mmap, multiprocessing, os, subprocess, sys
def part(n):
    with open('input/noise.bin', 'rb', buffering=0) as f:
        f.seek(n * 100000); return hashlib.sha256(f.read(100000)).hexdigest()
if __name__ == '__main__':
    with open('input/noise.bin', 'r+b') as f:
        m = mmap.mmap(f.fileno(), 0); m[1000:1010] = b'0123456789'; m.flush()
        os.pwrite(f.fileno(), b'abc', 1003); print(m[1000:1010]); f.seek(1000); print(f.read(10))
    with multiprocessing.get_context('fork').Pool(4) as pool: print(pool.map(part, range(12)))
    with multiprocessing.get_context('spawn').Pool(2) as pool: print(pool.map(part, range(4)))
    with open('out', 'wb', buffering=0) as f:
        f.write(b'head\n'); subprocess.run(['echo', 'from a child'], stdout=f, check=True); f.write(b'tail\n')
    print(open('out').read())
    r = os.open('input/numbers.txt', os.O_RDONLY); w = os.open('sent', os.O_WRONLY | os.O_CREAT)
    os.read(r, 7); print(os.sendfile(w, r, None, 100)); print(os.copy_file_range(r, w, 50)); os.write(w, b'end'); print(os.lseek(r, 0, 1), os.lseek(w, 0, 1))
P
         python3 p.py; python3 -c 'import shutil; shutil.copytree("input", "copy", symlinks=True)'; rm -rf __pycache__"#,
        20,
    );
}

#[test]
fn bash_pipelines_and_redirections() {
    same(
        &["sort", "awk", "sed", "tee", "split"],
        r#"sort -R --random-source=input/noise.bin input/numbers.txt | head -1000 | sort -n | tee sorted | awk '{s += $1} END {print s}'
         exec 3> log; for n in 1 2 3; do echo "line $n" >&3; cat input/small/$n >&3; done; (echo from a subshell >&3); exec 3>&-; wc log
         { read -r a; read -r b; cat > rest; } < input/numbers.txt; echo "$a $b"; wc rest
         exec 4<> both; echo written >&4; exec 4<&-; cat both; for n in $(seq 200); do echo $n >> appended; done; wc appended
         sed -i s/line/LINE/ log; split -b 100k input/noise.bin part.; cat part.* | cmp - input/noise.bin; head -c 10 < input/noise.bin | od -c
         (while read -r x; do echo "$x"; done < input/small/3) | wc; dd if=input/numbers.txt bs=10 count=2 status=none; cat < input/link > via-link; truncate -s 100 via-link"#,
        100,
    );
}

#[test]
fn fio_verifies_what_it_wrote() {
    if !has_commands(&["fio"]) {
        return;
    }
    for engine in ["psync", "vsync", "libaio", "io_uring", "sync", "pvsync"] {
        let script = format!(
            "fio --name=v --filename=f --ioengine={engine} --rw=randwrite --bsrange=1k-64k --size=8m --verify=crc32c --verify_fatal=1 --do_verify=1 --randseed=7 --norandommap=0 --fallocate=none --output=/dev/null; cmp -n 0 f f; rm f"
        );
        same(&["fio"], &script, if engine.starts_with(['p', 'v', 's']) { 100 } else { 0 });
    }
}

#[test]
fn bonnie_finishes() {
    let script = "mkdir b; bonnie++ -f -d b -s 64m -r 32m -n 1 -u root -q > out 2> err; test -s out; rm -rf b out err";
    same(&["bonnie++"], script, 1000);
}

#[test]
fn random_operations_agree_with_a_model() {
    let script = "for seed in 11 12 13; do ./random_ops file $seed 1500; ./random_ops appended $seed 500 append; done";
    same_with(script, 2500, |folder| {
        compiled("random_ops", folder);
    });
}

#[test]
fn sixty_four_processes_append_whole_records() {
    let script = r#"cat > a.py <<'P'
import os, sys
pids = []
for p in range(64):
    pid = os.fork()
    if pid == 0:
        fd = os.open('records', os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        for n in range(1000): assert os.write(fd, b'%02d:%04d:%s\n' % (p, n, b'x' * (p + n % 50))) > 0
        os._exit(0)
    pids.append(pid)
print([os.waitpid(pid, 0)[1] for pid in pids])
seen = {}
for line in open('records', 'rb'):
    p, n, x = line.rstrip(b'\n').split(b':')
    assert len(x) == int(p) + int(n) % 50 and set(x) <= {120}, line
    assert seen.get(p, -1) + 1 == int(n), (p, n); seen[p] = int(n)
print(len(seen), set(seen.values()))
P
    python3 a.py; sort records | cksum; rm records"#;
    same(&["python3"], script, 64_000);
}

#[test]
fn sixty_four_processes_share_one_descriptor() {
    let script = r#"cat > s.py <<'P'
import os
fd = os.open('shared', os.O_RDWR | os.O_CREAT)
pids = []
for p in range(64):
    pid = os.fork()
    if pid == 0:
        for n in range(200): assert os.write(fd, b'%02d:%05d\n' % (p, n)) == 9
        os._exit(0)
    pids.append(pid)
print([os.waitpid(pid, 0)[1] for pid in pids]); print(os.lseek(fd, 0, 1), os.fstat(fd).st_size)
os.lseek(fd, 0, 0)
r, w = os.pipe()
pids = []
for p in range(64):
    pid = os.fork()
    if pid == 0:
        while True:
            record = os.read(fd, 9)
            if not record: os._exit(0)
            assert len(record) == 9; os.write(w, record)
    pids.append(pid)
os.close(w)
records = open(r, 'rb').read()
print([os.waitpid(pid, 0)[1] for pid in pids])
assert sorted(records.split(b'\n')) == sorted(b''.join(b'%02d:%05d\n' % (p, n) for p in range(64) for n in range(200)).split(b'\n'))
print(len(records), os.lseek(fd, 0, 1))
P
    python3 s.py; sort shared | cksum; rm shared"#;
    same(&["python3"], script, 20_000);
}
