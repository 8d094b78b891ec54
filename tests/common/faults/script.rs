//! The rules a store follows, and what they do to one call.

use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};

use object_store::Result;

use super::op::Op;
use super::rule::{Effect, Rule};

/// Rules, each of which sees every call.
#[derive(Debug, Default)]
pub(crate) struct Script {
    rules: Vec<Rule>,
    fired: AtomicU64,
}

/// What befalls one call.
#[derive(Default)]
pub(crate) struct Fate {
    key: String,
    /// What befalls it before the store hears of it.
    pub(crate) before: Vec<Effect>,
    /// What befalls its answer.
    pub(crate) after: Vec<Effect>,
}

impl Script {
    /// These rules.
    pub(crate) fn new(rules: impl IntoIterator<Item = Rule>) -> Self {
        Self {
            rules: rules.into_iter().collect(),
            fired: AtomicU64::new(0),
        }
    }

    /// How often a rule struck.
    pub(crate) fn fired(&self) -> u64 {
        self.fired.load(Ordering::SeqCst)
    }

    /// What befalls this call.
    pub(crate) fn fate(&self, op: Op, key: &str) -> Fate {
        let mut fate = Fate {
            key: key.to_owned(),
            ..Fate::default()
        };
        for rule in &self.rules {
            let Some((effect, lands)) = rule.strikes(op, key) else {
                continue;
            };
            self.fired.fetch_add(1, Ordering::SeqCst);
            let stops = matches!(effect, Effect::Fail(_) | Effect::Panic | Effect::Park(_));
            if lands || effect.is_of_the_answer() {
                fate.after.push(effect);
            } else {
                fate.before.push(effect);
                if stops {
                    // A later rule does not see a call that was never made.
                    break;
                }
            }
        }
        fate
    }
}

impl Fate {
    /// Lets befall the call what comes before the store hears of it.
    ///
    /// # Errors
    /// The failure of the script.
    pub(super) async fn of_the_question(&self) -> Result<()> {
        for effect in &self.before {
            suffer(effect, &self.key).await?;
        }
        Ok(())
    }

    /// Lets befall the call what comes after the store has done it.
    ///
    /// # Errors
    /// The failure of the script.
    pub(super) async fn of_the_answer(&self) -> Result<()> {
        for effect in &self.after {
            suffer(effect, &self.key).await?;
        }
        Ok(())
    }

    /// Whether the call is acknowledged and not done.
    pub(crate) fn is_forgotten(&self) -> bool {
        let mut effects = self.before.iter();
        effects.any(|effect| matches!(effect, Effect::Forget))
    }

    /// After how many bytes a body ends as if that were all.
    pub(crate) fn truncated(&self) -> Option<usize> {
        let limits = self.after.iter().filter_map(|effect| match effect {
            Effect::Truncate(num_bytes) => Some(*num_bytes),
            _ => None,
        });
        limits.min()
    }

    /// Whether a body is wrong.
    pub(crate) fn garbled(&self) -> bool {
        self.after
            .iter()
            .any(|effect| matches!(effect, Effect::Garble))
    }

    /// After how many bytes a body breaks off.
    pub(crate) fn torn(&self) -> Option<usize> {
        let limits = self.after.iter().filter_map(|effect| match effect {
            Effect::Tear(num_bytes) => Some(*num_bytes),
            _ => None,
        });
        limits.min()
    }
}

async fn suffer(effect: &Effect, key: &str) -> Result<()> {
    match effect {
        Effect::Fail(failure) => Err(failure.error(key)),
        Effect::Stall(delay) => {
            tokio::time::sleep(*delay).await;
            Ok(())
        }
        Effect::Panic => panic!("panic by script at `{key}`"),
        Effect::Park(marker) => {
            let mut stdout = std::io::stdout();
            writeln!(stdout, "{marker} {key}").unwrap();
            stdout.flush().unwrap();
            std::future::pending().await
        }
        _ => Ok(()),
    }
}
