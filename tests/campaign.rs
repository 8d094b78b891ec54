//! A campaign of crashes and faults: whatever a seed does to a store while it is upgraded,
//! once the faults end one run makes it what it must be.
//!
//! `ZAGG_CAMPAIGN_SEEDS=1000..2000 cargo test --locked --test campaign` plays other seeds.

#![cfg(test)]

mod common;
#[path = "campaign/plan.rs"]
mod plan;
#[path = "campaign/stage.rs"]
mod stage;

use std::any::Any;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use common::cases::Case;
use common::child::work;
use common::compare::{compare_all, is_staged, without_sidecars};
use common::library::PROBE;
use common::verified::verify;
use plan::Plan;
use stage::Stage;
use zagg_stream::Ending;

/// The variable that says which seeds to play.
const VARIABLE: &str = "ZAGG_CAMPAIGN_SEEDS";

/// Those that every change is held against.
const SEEDS: Range<u64> = 0..100;

/// Those that are played at a real server, which answers slowly.
const SEEDS_AT_MOTO: Range<u64> = 0..6;

/// Seeds played at once; each waits as much as it works.
const PLAYERS: usize = 3;

const CHILD: &str = "a_child_of_these_tests_stops_at_its_nth_write";

#[tokio::test]
async fn a_child_of_these_tests_stops_at_its_nth_write() {
    work().await;
}

fn seeds(usual: Range<u64>) -> Range<u64> {
    let Ok(text) = std::env::var(VARIABLE) else {
        return usual;
    };
    let range = text.split_once("..").and_then(|(first, end)| {
        let range = first.trim().parse().ok()?..end.trim().parse().ok()?;
        (!range.is_empty()).then_some(range)
    });
    range.unwrap_or_else(|| panic!("{VARIABLE} is `{text}`, not a range such as 1000..2000"))
}

/// Plays what a seed stands for; how often a fault struck.
async fn play(plan: Plan) -> u64 {
    let case = Case::load(plan.name);
    let expected = case.upgraded(plan.law);
    let stage = Stage::of(plan.place, &case.declared(plan.law)).await;
    let mut struck = 0;
    let mut accounts = Vec::new();
    for run in &plan.runs {
        let played = stage.play(run, plan.law).await;
        struck += played.struck;
        accounts.push(format!("{} faults: {}", played.struck, played.account));
        stage.let_go(run.lease).await;
    }
    let left = without_sidecars(&expected, &stage.tree().await);
    let told = || format!("{plan}\n{}", accounts.join("\n"));

    let report = stage.finish(plan.law).await;
    let report = report.unwrap_or_else(|error| panic!("{error}\n{}", told()));
    assert_eq!(report.outcome, Ending::Done, "{report:#?}\n{}", told());
    let ladder = report.ladder.as_ref();
    assert!(ladder.is_some_and(|ladder| ladder.finished), "{}", told());
    let mut tree = stage.tree().await;
    tree.retain(|key, _| !is_staged(key) && !key.starts_with(PROBE));
    assert_eq!(compare_all(&expected, &tree), left, "{}", told());
    let verified = verify(&tree, plan.law).await;
    assert!(verified.is_clean(), "{:#?}\n{}", verified.findings, told());
    struck
}

/// What a panic said.
fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    let literal = || panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(literal).unwrap_or_default()
}

#[test]
fn once_the_faults_end_one_run_makes_a_store_what_it_must_be() {
    campaign(seeds(SEEDS), Plan::of);
}

#[test]
fn and_so_it_does_at_a_real_server() {
    campaign(seeds(SEEDS_AT_MOTO), Plan::at_moto);
}

fn campaign(seeds: Range<u64>, plan: fn(u64) -> Plan) {
    let (next, struck, untouched) = (
        AtomicU64::new(seeds.start),
        AtomicU64::new(0),
        AtomicU64::new(0),
    );
    let failed: Mutex<Vec<(u64, String)>> = Mutex::default();
    thread::scope(|scope| {
        for _ in 0..PLAYERS {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::SeqCst);
                    if seed >= seeds.end {
                        break;
                    }
                    match catch_unwind(AssertUnwindSafe(|| wait(play(plan(seed))))) {
                        Ok(0) => drop(untouched.fetch_add(1, Ordering::SeqCst)),
                        Ok(times) => drop(struck.fetch_add(times, Ordering::SeqCst)),
                        Err(panic) => failed.lock().unwrap().push((seed, said(&*panic))),
                    }
                }
            });
        }
    });
    let (struck, untouched) = (struck.into_inner(), untouched.into_inner());
    let number = seeds.end - seeds.start;
    println!("seeds {seeds:?}: {struck} faults; {untouched} of {number} seeds met none");
    let failed = failed.into_inner().unwrap();
    for (seed, panic) in &failed {
        println!(
            "seed {seed}: {panic}\nto play it alone: {VARIABLE}={seed}..{} cargo test --locked --test campaign",
            seed + 1
        );
    }
    let failed: Vec<u64> = failed.into_iter().map(|(seed, _)| seed).collect();
    assert_eq!(failed, Vec::<u64>::new(), "these seeds failed");
    assert!(struck > 0, "no fault struck");
    assert!(untouched * 2 <= number, "most of the seeds met no fault");
}

fn wait<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.unwrap().block_on(work)
}
