//! NFS-Ganesha, started for one run with a configuration of its own, and the plain program's NFS client.
//!
//! The server's own settings are the distribution's, apart from what has to be said: where it
//! listens, what it exports, and how large a transfer may be. Protocol version 3 registers itself
//! with `rpcbind`, which is started too unless there is one. Both listen on this machine only, the
//! server only to root's ports: whoever may say who they are is root already.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::workload::Access;
use super::{Caching, Peer};
use crate::error::Error;
use crate::programs::{Programs, plain};

const SERVER: &str = "ganesha.nfsd";
const REGISTRY: &str = "rpcbind";
const REGISTRY_PORT: u16 = 111;

/// Beside 127.0.0.1, where `rpcbind` listens by itself as soon as it is told an address (rpcbind(8));
/// told that one, version 1.2.6 frees something twice and aborts.
const REGISTRY_ADDRESS: &str = "127.0.0.2";

/// Over TCP the registry listens everywhere, unless it is handed its sockets as systemd does
/// (sd_listen_fds(3)): from descriptor 3 on. They come as standard input and output.
const REGISTRY_SCRIPT: &str =
    "exec 3<&0 4<&1 </dev/null >/dev/null; LISTEN_PID=$$ exec rpcbind -f -h \"$0\"";

/// Debian puts the registry where only root looks.
const PATH: &str = "/usr/sbin:/sbin:/usr/bin:/bin";

/// Where Debian puts what serves a plain file system, by machine.
const PLUGIN_FOLDERS: [&str; 3] =
    ["/usr/lib/x86_64-linux-gnu/ganesha", "/usr/lib/aarch64-linux-gnu/ganesha", "/usr/lib/ganesha"];
const PLUGIN: &str = "libfsalvfs.so";

/// Starting and ending take a second at most on an idle machine.
const PATIENCE: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// From here on it has a name of its own: what a kernel's client would ask for today.
const LARGE_BYTES: u64 = 1 << 20;

/// What the export is called.
const EXPORT: &str = "/lab";

/// A server, made anew for every run.
#[derive(Debug)]
pub(crate) struct Ganesha {
    /// The largest transfer: `rsize` and `wsize`.
    transfer_bytes: u64,
    /// Requests that it carries out at once; the distribution's own number if not said.
    threads_max: Option<u32>,
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    server: Program,
    /// None if somebody else's is used.
    _registry: Option<Program>,
    port: u16,
    mount_port: u16,
    folder: TempDir,
}

/// A process that is asked to end, and waited for, when dropped.
#[derive(Debug)]
struct Program {
    name: &'static str,
    child: Child,
}

impl Ganesha {
    /// With transfers of `transfer_bytes`.
    pub(crate) fn new(transfer_bytes: u64) -> Self {
        Self { transfer_bytes, threads_max: None, running: None }
    }

    /// With so many threads for requests at most.
    pub(crate) fn with_threads(self, threads_max: u32) -> Self {
        Self { threads_max: Some(threads_max), ..self }
    }

    fn configuration(&self, root: &Path, plugins: &Path, port: u16, mount_port: u16) -> String {
        let (root, plugins, size) = (root.display(), plugins.display(), self.transfer_bytes);
        let threads = self.threads_max.map(|count| format!("RPC_Ioq_ThrdMax = {count};"));
        let threads = threads.unwrap_or_default();
        format!(
            "NFS_CORE_PARAM {{
    NFS_Port = {port};
    MNT_Port = {mount_port};
    Bind_addr = 127.0.0.1;
    Protocols = 3;
    Enable_NLM = false;
    Enable_RQUOTA = false;
    mount_path_pseudo = true;
    Plugins_Dir = {plugins};
    {threads}
}}
NFSV4 {{ Graceless = true; }}
NFS_KRB5 {{ Active_krb5 = false; }}
EXPORT {{
    Export_Id = 1;
    Path = {root};
    Pseudo = {EXPORT};
    Access_Type = RW;
    Squash = none;
    SecType = sys;
    PrivilegedPort = true;
    Protocols = 3;
    Filesystem_Id = 192.168;
    MaxRead = {size};
    MaxWrite = {size};
    PrefRead = {size};
    PrefWrite = {size};
    FSAL {{ Name = VFS; }}
}}
"
        )
    }
}

impl Peer for Ganesha {
    fn name(&self) -> &'static str {
        if self.transfer_bytes < LARGE_BYTES { "ganesha" } else { "ganesha-1m" }
    }

    fn settings(&self, _programs: &Programs) -> Result<Value, Error> {
        let server = plain(SERVER).arg("-v").env("PATH", PATH).output();
        let version = server.ok().map(|output| {
            let said = [output.stdout, output.stderr].concat();
            String::from_utf8_lossy(&said).lines().next().unwrap_or_default().trim().to_owned()
        });
        Ok(json!({
            "server": version,
            "protocol": "NFSv3 over TCP",
            "rsize_wsize_bytes": self.transfer_bytes,
            "threads_max": self.threads_max,
            "client": "the plain program's own: all transfers of a call at once, no cache, \
                       no read-ahead, no write-behind, a connection for each process",
        }))
    }

    fn start(&mut self, _programs: &Programs, root: &Path) -> Result<(), Error> {
        let plugins = PLUGIN_FOLDERS.map(PathBuf::from);
        let plugins =
            plugins.iter().find(|folder| folder.join(PLUGIN).exists()).ok_or_else(|| {
                Error::fix(format!(
                    "{PLUGIN} is not installed; Debian: nfs-ganesha nfs-ganesha-vfs"
                ))
            })?;
        let registry = match TcpStream::connect((Ipv4Addr::LOCALHOST, REGISTRY_PORT)) {
            Ok(_) => None,
            Err(_) => {
                let mut registry = Program::start_registry()?;
                registry.wait_for_port(REGISTRY_PORT)?;
                Some(registry)
            }
        };
        let folder = tempfile::tempdir().map_err(Error::io("a folder for the server"))?;
        let (port, mount_port) = free_ports()?;
        let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
        let [configuration, log, pid] = ["configuration", "log", "pid"].map(path);
        let text = self.configuration(root, plugins, port, mount_port);
        fs::write(&configuration, text).map_err(Error::io(&configuration))?;
        let arguments = ["-F", "-f", &configuration, "-L", &log, "-p", &pid];
        let mut server = Program::start(SERVER, "nfs-ganesha", &arguments)?;
        server.wait_for_port(port).and_then(|()| server.wait_for_port(mount_port)).map_err(
            |error| {
                let said = fs::read_to_string(&log).unwrap_or_default();
                let last: Vec<&str> = said.lines().rev().take(3).collect();
                Error::failed(format!("{error}: {}", last.join("; ")))
            },
        )?;
        self.running = Some(Running { server, _registry: registry, port, mount_port, folder });
        Ok(())
    }

    fn command(
        &self,
        programs: &Programs,
        _root: &Path,
        access: &Access,
    ) -> Result<Command, Error> {
        let running = self.running.as_ref();
        let running = running.ok_or_else(|| Error::failed("the NFS server was not started"))?;
        let place = format!(
            "nfs://127.0.0.1:{}{EXPORT}?file={}&mount_port={}&transfer_bytes={}",
            running.port, access.file, running.mount_port, self.transfer_bytes
        );
        access.program(programs, Path::new(&place), Caching::Buffered)
    }

    fn stop(&mut self, _bytes: u64) -> Result<Value, Error> {
        let Some(running) = self.running.take() else { return Ok(Value::Null) };
        let Running { mut server, folder, .. } = running;
        server.end()?;
        drop(folder);
        Ok(Value::Null)
    }
}

impl Program {
    fn start(name: &'static str, package: &str, arguments: &[&str]) -> Result<Self, Error> {
        require(name, package)?;
        let mut command = plain(name);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null());
        Self::spawn(name, command)
    }

    /// The registry, on this machine's own addresses.
    fn start_registry() -> Result<Self, Error> {
        require(REGISTRY, "rpcbind")?;
        let listen = |address: IpAddr| TcpListener::bind((address, REGISTRY_PORT));
        let first = listen(Ipv4Addr::LOCALHOST.into()).map_err(Error::io("port 111"))?;
        // There may be no version 6 here.
        let second = listen(Ipv6Addr::LOCALHOST.into()).ok();
        let mut command = plain("sh");
        command.args(["-c", REGISTRY_SCRIPT, REGISTRY_ADDRESS]);
        command.env("LISTEN_FDS", if second.is_some() { "2" } else { "1" });
        command.stdin(OwnedFd::from(first));
        command.stdout(second.map_or_else(Stdio::null, |second| OwnedFd::from(second).into()));
        Self::spawn(REGISTRY, command)
    }

    fn spawn(name: &'static str, mut command: Command) -> Result<Self, Error> {
        command.env("PATH", PATH).current_dir("/").stderr(Stdio::null());
        Ok(Self { name, child: command.spawn().map_err(Error::io(name))? })
    }

    /// Waits until something answers there.
    fn wait_for_port(&mut self, port: u16) -> Result<(), Error> {
        let started = Instant::now();
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            if let Some(ended) = self.child.try_wait().map_err(Error::io(self.name))? {
                return Err(Error::failed(format!("{} ended with {ended}", self.name)));
            }
            if started.elapsed() > PATIENCE {
                return Err(Error::failed(format!("{}: nothing on port {port}", self.name)));
            }
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }

    /// Asks it to end and waits for that; one that will not is killed.
    fn end(&mut self) -> Result<(), Error> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let started = Instant::now();
        while self.child.try_wait().map_err(Error::io(self.name))?.is_none() {
            let patient = started.elapsed() < PATIENCE;
            if let Some(pid) = pid {
                // It fails only if the process has ended, which the next look finds.
                let _ = kill_process(pid, if patient { Signal::TERM } else { Signal::KILL });
            }
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Nothing more can be done about one that cannot be waited for.
        let _ = self.end();
    }
}

fn require(program: &str, package: &str) -> Result<(), Error> {
    if PATH.split(':').any(|folder| Path::new(folder).join(program).exists()) {
        return Ok(());
    }
    Err(Error::fix(format!("{program} is not installed; on Debian it is in {package}")))
}

/// Two ports that nobody uses just now.
fn free_ports() -> Result<(u16, u16), Error> {
    let listener = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(Error::io("a port"));
    let (first, second) = (listener()?, listener()?);
    let port = |listener: &TcpListener| listener.local_addr().map_err(Error::io("a port"));
    Ok((port(&first)?.port(), port(&second)?.port()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_says_where_what_and_how_much() {
        let ganesha = Ganesha::new(32 << 10);
        let text = ganesha.configuration(Path::new("/mnt/x"), Path::new("/plugins"), 5, 6);
        let where_and_what = ["NFS_Port = 5;", "MNT_Port = 6;", "Path = /mnt/x;"];
        let how = ["MaxRead = 32768;", "PrivilegedPort = true;", "Bind_addr = 127.0.0.1;"];
        for line in where_and_what.into_iter().chain(how) {
            assert!(text.contains(line), "{line}: {text}");
        }
        assert_eq!(text.matches('{').count(), text.matches('}').count());
        assert!(!text.contains("ThrdMax"));
        let text = ganesha.with_threads(8).configuration(Path::new("/"), Path::new("/"), 5, 6);
        assert!(text.contains("RPC_Ioq_ThrdMax = 8;"), "{text}");
    }
}
