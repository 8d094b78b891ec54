//! Every golden case under both laws: the columns are byte for byte the reference's,
//! and a second pass writes nothing.

use crate::common::binary::Zagg;
use crate::common::cases::{Case, Law, test_each_case_and_law};
use crate::common::compare::{assert_all, assert_columns};
use crate::common::stores::differences;

fn number(case: &Case) -> u64 {
    u64::try_from(case.leaves().len()).unwrap()
}

fn check(name: &str, law: Law) {
    let case = Case::load(name);
    let store = case.declared_store(law);
    let backfill = || {
        Zagg::backfill(&store.root())
            .args(&["--fold-law", law.name()])
            .run()
            .expect_code(0)
    };

    let first = backfill();
    assert_columns(&case, law, &store.root());
    assert_eq!(first.text("/command"), "backfill");
    assert_eq!(first.text("/outcome"), "done");
    assert_eq!(first.text("/fold_law"), law.name());
    assert_eq!(first.number("/exit_code"), 0);
    assert_eq!(first.number("/counts/written"), number(&case));
    assert_eq!(first.number("/verdicts/absent-or-unstamped"), number(&case));
    for other in ["current", "empty", "failed", "skipped", "not_attempted"] {
        assert_eq!(first.number(&format!("/counts/{other}")), 0, "{other}");
    }

    let before = store.surroundings();
    let second = backfill();
    assert_eq!(
        differences(&before, &store.surroundings()),
        Vec::<String>::new(),
        "a second pass writes nothing"
    );
    assert_eq!(second.number("/counts/current"), number(&case));
    assert_eq!(second.number("/counts/written"), 0);
    assert_eq!(second.number("/bytes/written"), 0);
}

test_each_case_and_law!(check);

#[test]
fn upgrade_runs_the_same_pass_and_goes_on() {
    let case = Case::load("strata");
    let store = case.declared_store(Law::Boundary);
    let upgrade = || {
        Zagg::new("upgrade")
            .arg(store.root())
            .arg("--json")
            .run()
            .expect_code(0)
    };
    let first = upgrade();
    assert_eq!(first.text("/command"), "upgrade");
    assert_eq!(first.text("/fold_law"), "boundary", "the default law");
    assert_eq!(first.number("/counts/written"), number(&case));
    assert_all(&case.upgraded(Law::Boundary), &store.tree());
    assert_eq!(upgrade().number("/counts/current"), number(&case));
    assert_all(&case.upgraded(Law::Boundary), &store.tree());
}
