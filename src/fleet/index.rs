//! Which worker of an array a process is, by what its scheduler tells it.

/// Variables by which schedulers tell a task its index: Slurm's job arrays, Kubernetes'
/// Indexed Jobs, and array jobs of AWS Batch.
const INDEX_VARIABLES: [&str; 3] = [
    "SLURM_ARRAY_TASK_ID",
    "JOB_COMPLETION_INDEX",
    "AWS_BATCH_JOB_ARRAY_INDEX",
];

/// Why a process does not know which worker it is.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum IndexError {
    /// Nothing says it.
    #[error(
        "no part is given: use --part I, or run this in an array that sets {}",
        INDEX_VARIABLES.join(", ")
    )]
    Missing,
    /// Several variables disagree, as in one scheduler's task inside another's.
    #[error("{first} and {second} both say which part this is, and differ; use --part I")]
    Ambiguous {
        /// One variable.
        first: &'static str,
        /// The other one.
        second: &'static str,
    },
    /// It is no number.
    #[error("{variable} is `{value}`, which is no index; use --part I")]
    NoNumber {
        /// The variable.
        variable: &'static str,
        /// What it says.
        value: String,
    },
}

/// The index of a worker: the one that was given, or that one of the variables says.
///
/// # Errors
/// When nothing says it, or not clearly.
pub(crate) fn index_of_worker(
    given: Option<u32>,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<u32, IndexError> {
    if let Some(index) = given {
        return Ok(index);
    }
    let mut found: Option<(&'static str, u32)> = None;
    for name in INDEX_VARIABLES {
        let Some(value) = variable(name) else {
            continue;
        };
        let Ok(index) = value.parse() else {
            let variable = name;
            return Err(IndexError::NoNumber { variable, value });
        };
        match found {
            Some((first, other)) if other != index => {
                let second = name;
                return Err(IndexError::Ambiguous { first, second });
            }
            _ => found = Some((name, index)),
        }
    }
    found.map(|(_, index)| index).ok_or(IndexError::Missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(set: &[(&str, &str)]) -> Result<u32, IndexError> {
        index_of_worker(None, |name| {
            let found = set.iter().find(|(known, _)| *known == name)?;
            Some(found.1.to_owned())
        })
    }

    #[test]
    fn each_scheduler_tells_its_tasks_who_they_are() {
        for name in INDEX_VARIABLES {
            assert_eq!(index(&[(name, "7")]), Ok(7));
            assert!(matches!(
                index(&[(name, "x")]),
                Err(IndexError::NoNumber { .. })
            ));
        }
        assert_eq!(index_of_worker(Some(3), |_| Some("7".to_owned())), Ok(3));
    }

    #[test]
    fn a_task_that_cannot_tell_says_so() {
        assert_eq!(index(&[]), Err(IndexError::Missing));
        let (slurm, kubernetes) = (INDEX_VARIABLES[0], INDEX_VARIABLES[1]);
        assert_eq!(index(&[(slurm, "1"), (kubernetes, "1")]), Ok(1));
        assert!(matches!(
            index(&[(slurm, "1"), (kubernetes, "2")]),
            Err(IndexError::Ambiguous { .. })
        ));
    }
}
