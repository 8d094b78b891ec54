//! A worker that is told its parts one after the other by the process that started it: what
//! it has seen of the lease, and its connections to the store, serve the next part, too.

use std::pin::pin;

use serde::{Deserialize, Serialize};
use tokio::sync::mpsc::UnboundedReceiver;

use super::assignment::{Assignment, WorkerError};
use super::directory::ArrayDir;
use super::stay::{COORDINATOR, Stayed};
use crate::report::Report;
use crate::run::Stopper;
use crate::store::Root;

/// What a worker is told; a line on its standard input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "order", rename_all = "kebab-case")]
pub(super) enum Order {
    /// Look at the lease of this run, so that parts can be begun at once.
    Join {
        /// Address of the store.
        store: String,
        /// The run.
        run_id: String,
    },
    /// Work on a part.
    Part {
        /// Name of the array, whose directory is below the run's.
        array: String,
        /// Which part of it.
        part: u32,
    },
    /// Finish what is being written, and end. So does the end of the orders.
    End,
}

/// What a worker says; a line on its standard output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "kebab-case")]
pub(super) enum Answer {
    /// It has seen the lease once, so that the next beat it sees will tell it something.
    Looked,
    /// It is through with a part.
    Through {
        /// Which part.
        part: u32,
        /// Why it could not be begun, or ended before its time. Its report says the rest.
        error: Option<String>,
        /// Whether it ends now, and takes no more orders.
        leaves: bool,
    },
}

/// Works on the parts of the run below `run` as the lines of `orders` tell, until there are no
/// more, and says by `answer` after each how it went. `open` opens the store.
///
/// # Errors
/// [`WorkerError::Order`] for a line that is none.
pub(crate) async fn obey(
    run: Root,
    mut orders: UnboundedReceiver<String>,
    answer: impl Fn(&str),
    open: impl Fn(&str) -> Result<Root, WorkerError>,
    stopper: Stopper,
) -> Result<Report, WorkerError> {
    let mut stayed = Stayed::new(&run, stopper);
    let answer = |said: Answer| match serde_json::to_string(&said) {
        Ok(line) => answer(&line),
        Err(error) => tracing::error!(%error, "the answer is no JSON"),
    };
    loop {
        let order = tokio::select! {
            order = next(&mut orders) => order?,
            by = stayed.stopper.stopped() => return Ok(stayed.interrupted(by)),
        };
        let (array, part) = match order {
            None => return Ok(stayed.all),
            Some(Order::End) => return Ok(stayed.interrupted(COORDINATOR.to_owned())),
            Some(Order::Join { store, run_id }) => {
                let looked = || answer(Answer::Looked);
                stayed.join(&open(&store)?, &run_id, looked).await;
                continue;
            }
            Some(Order::Part { array, part }) => (ArrayDir::new(run.below(&array)), part),
        };
        let stopper = stayed.stopper.clone();
        let worked = unless_told_to_end(
            work_on(array, part, &open, &mut stayed),
            &mut orders,
            &stopper,
        );
        let error = match worked.await {
            Ok(error) => error,
            Err(error) => Some(error.to_string()),
        };
        let leaves = stayed.is_at_its_end();
        answer(Answer::Through {
            part,
            error,
            leaves,
        });
        if leaves {
            return Ok(stayed.all);
        }
    }
}

/// The next order; `None` when there are no more.
async fn next(orders: &mut UnboundedReceiver<String>) -> Result<Option<Order>, WorkerError> {
    let Some(line) = orders.recv().await else {
        return Ok(None);
    };
    let order = serde_json::from_str(&line).map_err(|error| WorkerError::Order {
        reason: error.to_string(),
        line,
    });
    order.map(Some)
}

/// Goes on with the work, which is stopped when an order to end comes, or nobody is there any
/// more to give one: whoever is at a part is told nothing else.
async fn unless_told_to_end<T>(
    work: impl Future<Output = T>,
    orders: &mut UnboundedReceiver<String>,
    stopper: &Stopper,
) -> T {
    let mut work = pin!(work);
    tokio::select! {
        done = &mut work => return done,
        _ = next(orders) => stopper.stop(COORDINATOR),
    }
    work.await
}

/// Works on one part; why it ended before its time, if it did.
async fn work_on(
    array: ArrayDir,
    part: u32,
    open: &impl Fn(&str) -> Result<Root, WorkerError>,
    stayed: &mut Stayed,
) -> Result<Option<String>, WorkerError> {
    let plan = stayed.plan_of(&array).await?;
    let assignment = stayed.assign(Assignment::planned(array, plan, part)?);
    let root = open(assignment.store())?;
    let report = assignment.work(root).await?;
    let error = report.error.clone();
    stayed.add(report);
    Ok(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_a_line() {
        let order = Order::Part {
            array: "ladder-5-4".to_owned(),
            part: 7,
        };
        let line = serde_json::to_string(&order).unwrap();
        assert!(!line.contains('\n'));
        assert_eq!(serde_json::from_str::<Order>(&line).unwrap(), order);
    }

    #[tokio::test]
    async fn a_line_that_is_no_order_ends_the_worker() {
        let (lines, orders) = tokio::sync::mpsc::unbounded_channel();
        lines.send("part 7".to_owned()).unwrap();
        let run = Root::new(
            std::sync::Arc::new(object_store::memory::InMemory::new()),
            "memory://run",
        );
        let open = |_: &str| unreachable!("nothing is to be opened");
        let ended = obey(run, orders, |_| {}, open, Stopper::new()).await;
        assert!(matches!(ended, Err(WorkerError::Order { .. })), "{ended:?}");
    }
}
