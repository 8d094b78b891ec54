//! A Slurm of one machine, in a directory and on ports of its own.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tempfile::TempDir;

use crate::common::binary::Zagg;
use crate::common::fleet::wait_for;

/// What to type when there is no Slurm.
const INSTALL: &str =
    "the tests of Slurm need it: apt-get install -y --no-install-recommends slurm-wlm munge";

/// Where munge, which Slurm cannot do without, keeps its socket.
const MUNGE_DIR: &str = "/run/munge";

/// One at a time: they share the socket of munge.
static ALONE: Mutex<()> = Mutex::new(());

/// A cluster; ended when dropped.
pub(crate) struct Cluster {
    dir: TempDir,
    daemons: Vec<Child>,
    _alone: MutexGuard<'static, ()>,
}

impl Cluster {
    /// A cluster with this machine as its only node, which is idle.
    pub(crate) fn start() -> Self {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let dir = TempDir::with_prefix("zagg-stream-slurm-").unwrap();
        fs::write(conf(dir.path()), configuration(dir.path())).unwrap();
        let mut cluster = Self {
            dir,
            daemons: Vec::new(),
            _alone: alone,
        };
        if !is_munge_up() {
            let made = Command::new("install")
                .args(["-d", "-o", "munge", "-g", "munge", "-m", "755", MUNGE_DIR])
                .status();
            assert!(made.unwrap().success(), "{INSTALL}");
            cluster.daemon("runuser", &["-u", "munge", "--", "munged", "--foreground"]);
            wait_for("munge", || is_munge_up().then_some(()));
        }
        cluster.daemon("slurmctld", &["-D"]);
        wait_for("slurmctld", || {
            cluster
                .ask("scontrol", &["ping"])
                .status
                .success()
                .then_some(())
        });
        cluster.daemon("slurmd", &["-D", "-N", "localhost"]);
        wait_for("an idle node", || {
            let state = cluster.ask("sinfo", &["--noheader", "--format=%T"]);
            (state.stdout.trim_ascii() == b"idle").then_some(())
        });
        cluster
    }

    fn daemon(&mut self, program: &str, args: &[&str]) {
        let log = File::create(self.dir.path().join(format!("{program}.log"))).unwrap();
        let daemon = self
            .command(program)
            .args(args)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn();
        self.daemons.push(daemon.expect(INSTALL));
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("SLURM_CONF", conf(self.dir.path()));
        command
    }

    /// Runs one of its programs to the end.
    pub(crate) fn ask(&self, program: &str, args: &[&str]) -> Output {
        self.command(program).args(args).output().expect(INSTALL)
    }

    /// Tasks that run now, as `JOB_INDEX`.
    pub(crate) fn running(&self) -> Vec<String> {
        let args = [
            "--noheader",
            "--array",
            "--states=RUNNING",
            "--format=%F_%K",
        ];
        let queue = self.ask("squeue", &args).stdout;
        let queue = String::from_utf8(queue).unwrap();
        queue.lines().map(|line| line.trim().to_owned()).collect()
    }

    /// A command line that finds this cluster.
    pub(crate) fn environment(&self, zagg: Zagg) -> Zagg {
        zagg.env("SLURM_CONF", conf(self.dir.path()).to_str().unwrap())
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = self.ask("scancel", &["--user=root"]);
        // The node first, which tells the controller what it ends.
        for daemon in self.daemons.iter_mut().rev() {
            let _ = Command::new("kill").arg(daemon.id().to_string()).status();
        }
        for daemon in &mut self.daemons {
            let _ = daemon.wait();
        }
    }
}

fn is_munge_up() -> bool {
    let said = Command::new("munge").arg("-n").output().expect(INSTALL);
    said.status.success()
}

fn conf(dir: &Path) -> PathBuf {
    dir.join("slurm.conf")
}

/// A port that nobody listens on.
fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

fn configuration(dir: &Path) -> String {
    let dir = dir.display();
    let (controller, node) = (free_port(), free_port());
    for below in ["state", "spool"] {
        fs::create_dir(format!("{dir}/{below}")).unwrap();
    }
    format!(
        "ClusterName=test
SlurmctldHost=localhost(127.0.0.1)
AuthInfo=cred_expire=5
SlurmUser=root
StateSaveLocation={dir}/state
SlurmdSpoolDir={dir}/spool
SlurmctldPidFile={dir}/slurmctld.pid
SlurmdPidFile={dir}/slurmd.pid
SlurmctldPort={controller}
SlurmdPort={node}
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=sched_interval=1,batch_sched_delay=0
ReturnToService=2
NodeName=localhost NodeAddr=127.0.0.1 CPUs=2 RealMemory=1000 State=UNKNOWN
PartitionName=test Nodes=localhost Default=YES MaxTime=INFINITE State=UP
"
    )
}
