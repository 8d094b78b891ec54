//! Workers as processes of this machine, each of which takes one part after the other from a
//! pipe ([`super::super::orders`]).

use std::collections::{BTreeMap, VecDeque};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;

use super::{EngineError, Hired, Known};
use crate::fleet::orders::{Answer, Order};

/// Bytes kept of what a worker says, from the end.
const LAST_WORDS: usize = 4096;

/// How long a run waits for its workers to see its lease.
const READY_WITHIN: Duration = Duration::from_secs(1);

/// Processes, so many at once, that stay for all arrays of a run.
pub(in crate::fleet) struct Local {
    hired: Hired,
    array: String,
    waiting: VecDeque<u32>,
    hands: BTreeMap<u64, Hand>,
    /// Processes started so far, which names the next.
    started: u64,
    news: UnboundedReceiver<News>,
    teller: UnboundedSender<News>,
    /// News that was waited for and not looked at yet.
    unread: Vec<News>,
}

/// One process.
struct Hand {
    process: Child,
    orders: ChildStdin,
    /// The part it is at.
    part: Option<u32>,
    /// Whether it takes no more orders.
    leaves: bool,
    words: JoinHandle<Vec<u8>>,
}

/// What one of the processes did.
enum News {
    /// It said something.
    Answered(u64, Answer),
    /// It says nothing more, so it ends.
    Silent(u64),
}

impl Local {
    pub(super) fn new(hired: Hired) -> Self {
        let (teller, news) = unbounded_channel();
        Self {
            hired,
            array: String::new(),
            waiting: VecDeque::new(),
            hands: BTreeMap::new(),
            started: 0,
            news,
            teller,
            unread: Vec::new(),
        }
    }

    /// Starts all of them, and waits until they have seen the lease, if that is soon.
    pub(super) async fn make_ready(&mut self) -> Result<(), EngineError> {
        while self.hands.len() < self.hired.workers {
            self.start().await?;
        }
        let all_looked = async {
            let mut blind = self.hands.len();
            while blind > 0 {
                match self.news.recv().await {
                    Some(News::Answered(_, Answer::Looked)) => blind -= 1,
                    news => {
                        self.unread.extend(news);
                        blind -= 1;
                    }
                }
            }
        };
        // Who is late waits for the next beat.
        let _ = tokio::time::timeout(READY_WITHIN, all_looked).await;
        Ok(())
    }

    pub(super) fn begin(&mut self, array: &str) {
        self.array = array.to_owned();
    }

    pub(super) fn submit(&mut self, parts: &[u32]) {
        self.waiting.extend(parts);
    }

    /// Waits until one of the processes has done something.
    pub(super) async fn news(&mut self) {
        // The other end is held here, too, so there is always one to come.
        self.unread.extend(self.news.recv().await);
    }

    pub(super) async fn look(&mut self) -> Result<Known, EngineError> {
        let mut known = Known::default();
        while let Ok(news) = self.news.try_recv() {
            self.unread.push(news);
        }
        for news in std::mem::take(&mut self.unread) {
            known.ended.extend(self.take_in(news).await);
        }
        self.give_out().await?;
        let busy = self.hands.values().filter(|hand| hand.part.is_some());
        known.alive = self.waiting.len() + busy.count();
        Ok(known)
    }

    /// The part that a process has ended with, and how.
    async fn take_in(&mut self, news: News) -> Option<(u32, String)> {
        match news {
            News::Answered(_, Answer::Looked) => None,
            News::Answered(
                id,
                Answer::Through {
                    part,
                    error,
                    leaves,
                },
            ) => {
                let hand = self.hands.get_mut(&id)?;
                hand.part = None;
                hand.leaves = leaves;
                Some((part, error.unwrap_or_else(|| "it is through".to_owned())))
            }
            News::Silent(id) => {
                let mut hand = self.hands.remove(&id)?;
                // One that says nothing more may still run; it is of no use any more.
                let _ = hand.process.start_kill();
                let status = hand.process.wait().await;
                Some((hand.part?, hand.last_words(status).await))
            }
        }
    }

    /// Gives parts that wait to processes without one, which are started as they are needed.
    async fn give_out(&mut self) -> Result<(), EngineError> {
        while let Some(part) = self.waiting.front().copied() {
            let is_idle = |hand: &Hand| hand.part.is_none() && !hand.leaves;
            let idle = self.hands.iter().find(|(_, hand)| is_idle(hand));
            let id = match idle.map(|(id, _)| *id) {
                Some(id) => id,
                None if self.hands.len() < self.hired.workers => self.start().await?,
                None => return Ok(()),
            };
            let order = Order::Part {
                array: self.array.clone(),
                part,
            };
            let Some(hand) = self.hands.get_mut(&id) else {
                return Ok(());
            };
            hand.part = Some(part);
            self.waiting.pop_front();
            hand.tell(&order).await;
        }
        Ok(())
    }

    async fn start(&mut self) -> Result<u64, EngineError> {
        let program = self.hired.program.display().to_string();
        let cannot = |reason: String| EngineError::Program {
            program: program.clone(),
            reason,
        };
        let mut command = Command::new(&self.hired.program);
        // What a terminal sends is for this process, which then asks each to end, once.
        #[cfg(unix)]
        command.process_group(0);
        let mut process = command
            .args(["worker", "--run", &self.hired.run.absolute(), "--orders"])
            .args(["--progress", "none"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| cannot(error.to_string()))?;
        let pipes = (
            process.stdin.take(),
            process.stdout.take(),
            process.stderr.take(),
        );
        let (Some(orders), Some(answers), Some(said)) = pipes else {
            return Err(cannot("its pipes are not to be had".to_owned()));
        };
        let id = self.started;
        self.started += 1;
        tokio::spawn(pass_on(id, answers, self.teller.clone()));
        let mut hand = Hand {
            process,
            orders,
            part: None,
            leaves: false,
            words: tokio::spawn(keep_last(said)),
        };
        let order = Order::Join {
            store: self.hired.store.clone(),
            run_id: self.hired.held.run_id().to_owned(),
        };
        hand.tell(&order).await;
        self.hands.insert(id, hand);
        Ok(id)
    }

    pub(super) async fn stop(&mut self) {
        self.waiting.clear();
        for hand in self.hands.values_mut() {
            hand.tell(&Order::End).await;
        }
    }

    /// Ends the process that is at a part.
    pub(super) fn end(&mut self, part: u32) {
        for hand in self.hands.values_mut() {
            if hand.part == Some(part) {
                // One that has ended cannot be killed.
                let _ = hand.process.start_kill();
            }
        }
    }

    pub(super) async fn kill(&mut self) {
        self.waiting.clear();
        for hand in self.hands.values_mut() {
            // One that has ended cannot be killed.
            let _ = hand.process.kill().await;
        }
        self.hands.clear();
    }
}

impl Hand {
    /// One that cannot be told has ended, and news of that is on its way.
    async fn tell(&mut self, order: &Order) {
        let Ok(mut line) = serde_json::to_vec(order) else {
            return;
        };
        line.push(b'\n');
        let _ = self.orders.write_all(&line).await;
    }

    /// How it ended, and the last thing it complained of.
    async fn last_words(self, status: std::io::Result<ExitStatus>) -> String {
        let status = status.map_or_else(|error| error.to_string(), |status| status.to_string());
        let words = self.words.await.unwrap_or_default();
        let words = String::from_utf8_lossy(&words);
        match words.lines().rev().find(|line| !line.trim().is_empty()) {
            Some(line) => format!("{status}: {}", line.trim()),
            None => status,
        }
    }
}

/// Passes on what a process answers, and at the end that there is no more.
async fn pass_on(id: u64, answers: impl AsyncRead + Unpin, teller: UnboundedSender<News>) {
    let mut lines = BufReader::new(answers).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        // The account it prints at its end is for somebody else.
        if let Ok(answer) = serde_json::from_str(&line) {
            // Whoever looks may be gone.
            let _ = teller.send(News::Answered(id, answer));
        }
    }
    let _ = teller.send(News::Silent(id));
}

/// The end of what a process says.
async fn keep_last(mut said: impl AsyncRead + Unpin) -> Vec<u8> {
    let (mut words, mut some) = (Vec::new(), [0; LAST_WORDS]);
    while let Ok(n @ 1..) = said.read(&mut some).await {
        words.extend_from_slice(&some[..n]);
        let surplus = words.len().saturating_sub(LAST_WORDS);
        words.drain(..surplus);
    }
    words
}
