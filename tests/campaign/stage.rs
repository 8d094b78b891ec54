//! The store a campaign plays on, and one run over it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use object_store::local::LocalFileSystem;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use serde_json::{Value, json};
use zagg_stream::{Report, Root, Settings, Steps, Upgrade};

use super::CHILD;
use super::plan::{End, LeaseIs, Place, Run};
use crate::common::bucket::Bucket;
use crate::common::cases::Law;
use crate::common::child::{Child, Task};
use crate::common::faults::{Failure, FaultStore, Op, Rule};
use crate::common::library::{LEASE, in_memory, settings, tree_in};
use crate::common::moto::Moto;
use crate::common::s3::{Conditions, S3Server};
use crate::common::stores::{TestStore, Tree};
use crate::common::times::iso_ago;

/// A run that takes longer than this hangs.
const TIME_LIMIT: Duration = Duration::from_secs(120);

/// A store, and what it takes to spoil it.
pub(crate) enum Stage {
    Memory(Arc<InMemory>),
    Disk(TestStore),
    S3(S3Server, Bucket),
    Moto {
        bucket: Bucket,
        /// For as long as the bucket is needed.
        _server: Arc<Moto>,
    },
}

/// What became of a run.
pub(crate) struct Played {
    /// How often a fault struck, the end of it included.
    pub(crate) struck: u64,
    /// How the run ended.
    pub(crate) account: String,
}

impl Stage {
    /// A store at this place that holds `tree`.
    pub(crate) async fn of(place: Place, tree: &Tree) -> Self {
        match place {
            Place::Memory => Self::Memory(in_memory(tree).await),
            Place::Disk => Self::Disk(TestStore::of(tree)),
            Place::S3 { rewrites } => {
                let server = S3Server::with(match rewrites {
                    true => Conditions::All,
                    false => Conditions::CreateOnly,
                });
                let bucket = server.bucket("campaign", tree);
                Self::S3(server, bucket)
            }
            Place::Moto => {
                static NEXT: AtomicU64 = AtomicU64::new(0);
                let moto = Moto::shared();
                let nth = NEXT.fetch_add(1, Ordering::SeqCst);
                let bucket = moto.bucket(&format!("campaign-{nth}"));
                bucket.put(tree).await;
                Self::Moto {
                    bucket,
                    _server: moto,
                }
            }
        }
    }

    /// What the store holds.
    pub(crate) async fn tree(&self) -> Tree {
        match self {
            Self::Memory(memory) => tree_in(&**memory).await,
            Self::Disk(disk) => disk.tree(),
            Self::S3(server, bucket) => server.tree(bucket),
            Self::Moto { bucket, .. } => bucket.tree().await,
        }
    }

    /// The root, behind rules that nobody asks for their count.
    fn root(&self, rules: Vec<Rule>) -> Root {
        let inner: Arc<dyn ObjectStore> = match self {
            Self::Memory(memory) => memory.clone(),
            Self::Disk(disk) => {
                let files = LocalFileSystem::new_with_prefix(disk.root()).unwrap();
                Arc::new(files.with_automatic_cleanup(true))
            }
            Self::S3(server, bucket) => {
                server.follow(rules);
                return bucket.root();
            }
            Self::Moto { bucket, .. } => bucket.store(),
        };
        Root::new(Arc::new(FaultStore::new(inner, rules)), "memory://campaign")
    }

    /// One run under faults.
    pub(crate) async fn play(&self, run: &Run, law: Law) -> Played {
        let toml = format!("{}\nfold_law = \"{law}\"", run.toml);
        let mut settings = settings(&toml);
        settings.force = run.force;
        let mut rules: Vec<Rule> = run.faults.iter().map(|fault| fault.rule()).collect();
        match run.end {
            End::ByItself => {}
            End::CutOff { after } => rules.extend(cut_off(after)),
            End::Killed { after } => return self.kill(run, after, toml),
        }
        let struck: Vec<_> = rules.iter().map(Rule::struck).collect();
        let report = upgrade(self.root(rules), settings, run.steps).await;
        let struck = struck.iter().map(|struck| struck.load(Ordering::SeqCst));
        Played {
            struck: struck.sum(),
            account: match report {
                Ok(report) => format!(
                    "{:?}, {:?}, {:?}, {:?}",
                    report.outcome, report.counts, report.error, report.warnings
                ),
                Err(error) => error,
            },
        }
    }

    /// A run without faults.
    ///
    /// # Errors
    /// Why it was not admitted.
    pub(crate) async fn finish(&self, law: Law) -> Result<Report, String> {
        let settings = settings(&format!("fold_law = \"{law}\""));
        upgrade(self.root(Vec::new()), settings, Steps::All).await
    }

    fn kill(&self, run: &Run, after: u64, toml: String) -> Played {
        const OTHERS_LAND: Duration = Duration::from_millis(20);
        let Self::Disk(disk) = self else {
            panic!("only on a disk is a process killed");
        };
        let task = Task {
            nth: after,
            settings: toml,
            force: run.force,
            ladder: run.steps == Steps::All,
            ..Task::default()
        };
        let mut child = Child::start(CHILD, &disk.root(), &task);
        let parked = child.parked();
        std::thread::sleep(OTHERS_LAND);
        if parked.is_some() {
            child.kill();
        }
        Played {
            struck: u64::from(parked.is_some()),
            account: format!("killed after {parked:?}"),
        }
    }

    /// The next run may have the lease.
    pub(crate) async fn let_go(&self, lease: LeaseIs) {
        let tree = self.tree().await;
        let Some(bytes) = tree.get(LEASE) else {
            return;
        };
        let store: Arc<dyn ObjectStore> = match self {
            Self::Memory(memory) => memory.clone(),
            Self::Disk(disk) => Arc::new(LocalFileSystem::new_with_prefix(disk.root()).unwrap()),
            Self::S3(server, bucket) => {
                server.follow([]);
                bucket.store()
            }
            Self::Moto { bucket, .. } => bucket.store(),
        };
        let key = Path::from(LEASE);
        match lease {
            LeaseIs::Released => store.delete(&key).await.unwrap(),
            LeaseIs::Expired => {
                let mut document: Value = serde_json::from_slice(bytes).unwrap();
                document["heartbeat_at"] = json!(iso_ago(3_600));
                let bytes = serde_json::to_vec(&document).unwrap();
                store.put(&key, bytes.into()).await.unwrap();
            }
        }
    }
}

/// From the `after`th write on the store answers nothing any more; that write is done or
/// not, and nobody is told.
fn cut_off(after: u64) -> [Rule; 2] {
    let writes = Arc::new(AtomicU64::new(0));
    let so_far = writes.clone();
    let last =
        Rule::on(Op::WRITES).key(move |_| writes.fetch_add(1, Ordering::SeqCst) + 1 == after);
    let later = Rule::on(Op::ALL).key(move |_| so_far.load(Ordering::SeqCst) > after);
    [
        last.lands().fail(Failure::HangUp),
        later.fail(Failure::HangUp),
    ]
}

async fn upgrade(root: Root, settings: Settings, steps: Steps) -> Result<Report, String> {
    let upgrade = Upgrade::new(root).settings(settings).steps(steps);
    let run = async {
        let handle = upgrade.start().await.map_err(|error| error.to_string())?;
        handle.join().await.map_err(|error| error.to_string())
    };
    let report = tokio::time::timeout(TIME_LIMIT, run).await;
    report.unwrap_or_else(|_| panic!("a run of this campaign hangs"))
}
