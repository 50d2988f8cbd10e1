//! The two brokers as processes: started on an empty folder, on a free loopback port, and stopped.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use tempfile::TempDir;

use crate::wire;

/// How long a broker may take to answer after it was started.
const START_WAIT: Duration = Duration::from_secs(300);
/// How long a broker may take to stop before it is killed.
const STOP_WAIT: Duration = Duration::from_secs(60);
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(1);
/// Sixteen bytes in URL-safe base64, as Kafka's storage tool wants a cluster id.
const CLUSTER_ID: &str = "YmVuY2htYXJrLTAwMDAwMQ";
/// What `kafka-server-start.sh` gives the JVM.
const KAFKA_JVM: [&str; 7] = [
    "-Xmx1G",
    "-Xms1G",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
];

/// Which broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum System {
    /// Apache Kafka 3.7.2, one KRaft node.
    Kafka,
    /// kaas.
    Kaas,
}

impl System {
    /// The name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Kafka => "Kafka",
            Self::Kaas => "kaas",
        }
    }
}

/// What is needed to start both.
pub(crate) struct Programs {
    /// The kaas program.
    pub(crate) kaas: PathBuf,
    /// The class path of Apache Kafka 3.7.2.
    pub(crate) class_path: String,
    /// Where the brokers' folders are made.
    pub(crate) folder: PathBuf,
    /// How much longer than on this machine each fsync and fdatasync takes.
    pub(crate) sync_delay: Duration,
}

/// A running broker.
pub(crate) struct Broker {
    child: Child,
    /// Where it listens.
    pub(crate) address: SocketAddr,
    /// From the exec to the first answer.
    pub(crate) start: Duration,
    system: System,
    settings: Vec<String>,
    folder: TempDir,
}

impl Broker {
    /// Starts a broker on an empty folder and waits for its first answer.
    pub(crate) fn start(system: System, programs: &Programs) -> Result<Self> {
        Self::start_with(system, programs, &[])
    }

    /// The same with settings of its own, `name=value`.
    pub(crate) fn start_with(system: System, programs: &Programs, settings: &[&str]) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("kaas-bench-").tempdir_in(&programs.folder)?;
        let address = free_address()?;
        if system == System::Kafka {
            format(programs, folder.path(), address, settings)?;
        }
        let settings: Vec<String> = settings.iter().map(|setting| (*setting).to_owned()).collect();
        let began = Instant::now();
        let child = spawn(system, programs, folder.path(), address, &settings)?;
        let mut broker = Self { child, address, start: Duration::ZERO, system, settings, folder };
        broker.wait(began)?;
        Ok(broker)
    }

    /// Ends the broker with SIGKILL and starts it again on what it left.
    pub(crate) fn crash(&mut self, programs: &Programs) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        let began = Instant::now();
        self.child = spawn(self.system, programs, self.folder.path(), self.address, &self.settings)?;
        self.wait(began)
    }

    /// Waits for the first answer.
    fn wait(&mut self, began: Instant) -> Result<()> {
        let name = self.system.name();
        while !wire::answers(self.address) {
            if let Some(status) = self.child.try_wait()? {
                let log = fs::read_to_string(self.folder.path().join("broker.log"))?;
                bail!("{name} ended ({status}): {}", log.lines().last().unwrap_or_default());
            }
            ensure!(began.elapsed() < START_WAIT, "{name} does not answer");
            thread::sleep(ASK_AGAIN_AFTER);
        }
        self.start = began.elapsed();
        Ok(())
    }

    /// Where it keeps its data.
    pub(crate) fn data(&self) -> PathBuf {
        data(self.folder.path())
    }

    /// Which it is.
    pub(crate) fn system(&self) -> System {
        self.system
    }

    /// The process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Asks the broker to stop and waits until it has.
    pub(crate) fn stop(mut self) -> Result<()> {
        terminate(&self.child)?;
        let deadline = Instant::now() + STOP_WAIT;
        while self.child.try_wait()?.is_none() {
            if Instant::now() > deadline {
                self.child.kill()?;
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }
}

/// A trial that fails must not leave its broker behind.
impl Drop for Broker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends SIGTERM.
fn terminate(child: &Child) -> Result<()> {
    signal(child, rustix::process::Signal::TERM)
}

/// Sends a signal to a child.
pub(crate) fn signal(child: &Child, signal: rustix::process::Signal) -> Result<()> {
    let pid = rustix::process::Pid::from_raw(i32::try_from(child.id())?).context("a process id")?;
    Ok(rustix::process::kill_process(pid, signal)?)
}

fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}

fn spawn(
    system: System,
    programs: &Programs,
    folder: &Path,
    address: SocketAddr,
    settings: &[String],
) -> Result<Child> {
    let mut command = match system {
        // Kafka's are in the file that it was formatted with.
        System::Kafka => kafka(programs, folder),
        System::Kaas => kaas(programs, folder, address, settings),
    };
    if !programs.sync_delay.is_zero() {
        command = with_slow_syncs(&command, programs.sync_delay);
    }
    let log = File::options().create(true).append(true).open(folder.join("broker.log"))?;
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    command.spawn().with_context(|| format!("starting {}", system.name()))
}

/// The same program under strace, which holds a thread that has synced for so long. Only these calls are stopped, and threads do
/// not wait for each other's. Kafka's msyncs of its indexes are not held: a volume that is slow need not be so for them.
fn with_slow_syncs(command: &Command, delay: Duration) -> Command {
    let mut slow = Command::new("strace");
    // The tracer is the broker's child, not its parent.
    slow.args(["-D", "-f", "--seccomp-bpf", "-qqq", "-o", "/dev/null", "-e", "trace=fsync,fdatasync", "-e"]);
    slow.arg(format!("inject=fsync,fdatasync:delay_exit={}", delay.as_micros()));
    slow.arg(command.get_program()).args(command.get_args());
    slow
}

fn kaas(programs: &Programs, folder: &Path, address: SocketAddr, settings: &[String]) -> Command {
    let mut command = Command::new(&programs.kaas);
    command.arg("serve");
    command.args(["--override", &format!("listeners=PLAINTEXT://{address}")]);
    command.args(["--override", &format!("log.dirs={}", data(folder).display())]);
    settings.iter().for_each(|setting| _ = command.args(["--override", setting]));
    command
}

fn data(folder: &Path) -> PathBuf {
    folder.join("data")
}

fn properties(folder: &Path) -> PathBuf {
    folder.join("server.properties")
}

fn java(programs: &Programs) -> Command {
    let log4j = Path::new(env!("CARGO_MANIFEST_DIR")).join("../conformance/lib/log4j.properties");
    let mut command = Command::new("java");
    command.args(["-cp", &programs.class_path]);
    command.arg(format!("-Dlog4j.configuration=file:{}", log4j.display()));
    command
}

fn kafka(programs: &Programs, folder: &Path) -> Command {
    let mut command = java(programs);
    command.args(KAFKA_JVM).arg("kafka.Kafka").arg(properties(folder));
    command
}

/// Makes the folder of a broker that is its own controller, with Kafka's defaults but for what one node needs. It does
/// not count as starting.
fn format(programs: &Programs, folder: &Path, address: SocketAddr, settings: &[&str]) -> Result<()> {
    let controller = free_address()?;
    let properties = properties(folder);
    let text = format!(
        "process.roles=broker,controller\n\
         node.id=1\n\
         controller.quorum.voters=1@{controller}\n\
         controller.listener.names=CONTROLLER\n\
         listeners=PLAINTEXT://{address},CONTROLLER://{controller}\n\
         listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT\n\
         log.dirs={}\n\
         offsets.topic.replication.factor=1\n\
         transaction.state.log.replication.factor=1\n\
         transaction.state.log.min.isr=1\n\
         {}\n",
        data(folder).display(),
        settings.join("\n")
    );
    fs::write(&properties, text)?;
    let formatted = java(programs)
        .args(["-XX:TieredStopAtLevel=1", "kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c"])
        .arg(&properties)
        .output()
        .context("running java")?;
    ensure!(formatted.status.success(), "formatting: {}", String::from_utf8_lossy(&formatted.stderr));
    Ok(())
}
