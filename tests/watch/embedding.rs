//! Upgrades as a part of another program: several at once, inside the host's own runtime,
//! watched, stopped, and dropped.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::common::cases::{Case, Law};
use crate::common::compare::assert_all;
use crate::common::faults::{Op, Rule};
use crate::common::library::{LEASE, in_memory, scripted, settings, start_steps, tree_in};
use futures::{Stream, StreamExt};
use object_store::ObjectStore;
use zagg_stream::{
    Account, Declare, Ending, Error, Event, Plan, Progress, Report, Retire, Root, Runbook,
    Settings, Step, Steps, Stop, Stopper, Upgrade, UpgradeHandle, Verify,
};

/// Slow enough that a run is still under way when its first column is written.
const SLOW: Duration = Duration::from_millis(5);

/// Longest wait for something that nothing here announces.
const PATIENCE: Duration = Duration::from_secs(20);

async fn slow_store(case: &Case) -> Arc<dyn ObjectStore> {
    let slow = Rule::on([Op::Put]).stall(SLOW);
    Arc::new(scripted(&case.declared(Law::Boundary), [slow]).await)
}

async fn start(store: &Arc<dyn ObjectStore>, toml: &str) -> UpgradeHandle {
    start_steps(store.clone(), settings(toml), Steps::All).await
}

fn is_written(event: &Event) -> bool {
    matches!(event, Event::Written { .. })
}

async fn until(
    events: &mut (impl Stream<Item = Event> + Unpin),
    wanted: impl Fn(&Event) -> bool,
) -> Vec<Event> {
    let mut seen = Vec::new();
    while let Some(event) = events.next().await {
        let found = wanted(&event);
        seen.push(event);
        if found {
            return seen;
        }
    }
    panic!("the events ended with {:?}", seen.last());
}

/// Two upgrades under different budgets, both watched to the end; one is stopped after its
/// first column.
async fn two_at_once() {
    let case = Case::load("deep");
    let (kept, stopped) = (slow_store(&case).await, slow_store(&case).await);
    let first = start(&kept, "memory_budget = \"64 KiB\"").await;
    let second = start(&stopped, "memory_budget = \"8 MiB\"\nmax_in_flight = 1").await;
    let mut events_of_second = Box::pin(second.events());
    let watching_first = first.events().collect::<Vec<_>>();
    let watching_second = async {
        until(&mut events_of_second, is_written).await;
        second.abort("the host");
        let mut rest: Vec<_> = events_of_second.collect().await;
        (rest.pop(), rest)
    };
    let (events, (last, rest), report) =
        tokio::join!(watching_first, watching_second, first.join());
    let (report, stopped_report) = (report.unwrap(), second.join().await.unwrap());

    assert_eq!(report.outcome, Ending::Done, "{report:?}");
    assert_all(&case.upgraded(Law::Boundary), &tree_in(&*kept).await);
    let outcome = Ending::Done;
    assert_eq!(events.last(), Some(&Event::Finished { outcome }));

    assert_eq!(stopped_report.outcome, Ending::Interrupted);
    let counts = stopped_report.counts;
    assert!(
        counts.written >= 1 && counts.not_attempted >= 1,
        "{counts:?}"
    );
    let aborts = rest
        .iter()
        .filter(|event| matches!(event, Event::Aborted { reason } if reason.contains("the host")));
    assert_eq!(aborts.count(), 1);
    let outcome = Ending::Interrupted;
    assert_eq!(last, Some(Event::Finished { outcome }));
    assert!(!tree_in(&*stopped).await.contains_key(LEASE));
}

#[tokio::test]
async fn two_upgrades_at_once_in_a_tokio_runtime() {
    two_at_once().await;
}

#[test]
fn two_upgrades_at_once_in_an_actix_system() {
    actix::System::new().block_on(two_at_once());
}

#[tokio::test]
async fn a_run_whose_handle_is_dropped_stops_and_gives_its_lease_back() {
    let case = Case::load("deep");
    let store = slow_store(&case).await;
    let handle = start(&store, "max_in_flight = 1").await;
    let mut events = Box::pin(handle.events());
    until(&mut events, is_written).await;
    assert!(tree_in(&*store).await.contains_key(LEASE));
    drop(handle);
    let rest = tokio::time::timeout(PATIENCE, events.collect::<Vec<_>>());
    let rest = rest.await.unwrap();
    let outcome = Ending::Interrupted;
    assert_eq!(rest.last(), Some(&Event::Finished { outcome }));
    assert!(!tree_in(&*store).await.contains_key(LEASE));
    // What it left is what any interrupted run leaves.
    let report = start(&store, "").await.join().await.unwrap();
    assert_eq!(report.outcome, Ending::Done);
    assert_all(&case.upgraded(Law::Boundary), &tree_in(&*store).await);
}

fn steps_of(events: &[Event]) -> Vec<(Step, bool)> {
    let step = |event: &Event| match event {
        Event::StepStarted { step, .. } => Some((*step, true)),
        Event::StepEnded { step, .. } => Some((*step, false)),
        _ => None,
    };
    events.iter().filter_map(step).collect()
}

fn last_progress(events: &[Event], of: Step) -> Progress {
    let progress = events.iter().filter_map(|event| match event {
        Event::Progress(progress) if progress.step == of => Some(*progress),
        _ => None,
    });
    let progress: Vec<_> = progress.collect();
    let grows =
        |pair: &[Progress]| pair[0].done <= pair[1].done && pair[0].requests <= pair[1].requests;
    assert!(progress.windows(2).all(grows), "{progress:?}");
    *progress
        .last()
        .unwrap_or_else(|| panic!("no progress of {of}"))
}

#[tokio::test]
async fn a_whole_runbook_tells_every_step_and_how_far_it_is() {
    let case = Case::load("deep");
    let store = in_memory(&case.declared(Law::Boundary)).await;
    let root = Root::new(store, "memory://watched");
    let runbook = Runbook::new(root).settings(settings("")).retire(true);
    let watching = runbook.events().collect::<Vec<_>>();
    let (events, account) = tokio::join!(watching, runbook.run());
    let account = account.unwrap();
    assert_eq!(account.report.outcome, Ending::Done, "{account:?}");

    let expected = [
        Step::Listing,
        Step::Columns,
        Step::Ladder,
        Step::Finisher,
        Step::Verify,
        Step::Receipt,
    ];
    let expected: Vec<_> = expected
        .into_iter()
        .flat_map(|step| [(step, true), (step, false)])
        .collect();
    assert_eq!(steps_of(&events), expected);
    let n_columns = account.report.counts.written;
    let n_artifacts = account.report.ladder.as_ref().unwrap().counts.written;
    for (step, total, written) in [
        (Step::Listing, 1, 0),
        (Step::Columns, n_columns, n_columns),
        (Step::Ladder, n_artifacts, n_artifacts),
        (Step::Finisher, 1, 0),
        (Step::Verify, n_columns + n_artifacts, 0),
    ] {
        let progress = last_progress(&events, step);
        assert_eq!((progress.done, progress.total), (total, total), "{step}");
        assert_eq!((progress.written, progress.failed), (written, 0), "{step}");
        assert_eq!(
            (progress.in_flight, progress.in_flight_bytes),
            (0, 0),
            "{step}"
        );
    }
    let written: BTreeSet<&str> = events
        .iter()
        .filter_map(|event| match event {
            Event::Written { path, .. } => Some(path.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(written.len() as u64, n_columns + n_artifacts);
    let started = |event: &Event| matches!(event, Event::Started { run_id, .. } if *run_id == account.report.run_id);
    assert_eq!(events.iter().filter(|event| started(event)).count(), 1);
    let outcome = Ending::Done;
    assert_eq!(events.last(), Some(&Event::Finished { outcome }));
    assert!(events.contains(&Event::LeaseReleased));
}

#[test]
fn what_a_host_holds_may_go_to_another_thread() {
    fn is_send<T: Send>() {}
    fn is_shared<T: Send + Sync>() {}
    is_send::<Upgrade>();
    is_send::<UpgradeHandle>();
    is_send::<Runbook>();
    is_shared::<Root>();
    is_shared::<Settings>();
    is_shared::<Stop>();
    is_shared::<Stopper>();
    is_shared::<Event>();
    is_shared::<Report>();
    is_shared::<Account>();
    is_shared::<Error>();
    fn is_send_value<T: Send>(_: &T) {}
    let runbook = Runbook::new(Root::open("memory://send").unwrap());
    is_send_value(&runbook.events());
    // A host spawns them.
    is_send_value(&runbook.run());
    let root = || Root::open("memory://send").unwrap();
    is_send_value(&Upgrade::new(root()).start());
    let config = String::from_utf8(Case::load("plain").file("config.yaml").to_vec()).unwrap();
    is_send_value(&Declare::new(root(), &config).unwrap().run());
    is_send_value(&Plan::new(root()).make());
    is_send_value(&Verify::new(root()).run());
    is_send_value(&Retire::new(root()).run());
}
