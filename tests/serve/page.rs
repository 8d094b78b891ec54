//! The page of the service, in a browser: start, watch, stop, and what is left of it after a
//! restart.

use std::time::Duration;

use crate::common::browser::Browser;
use crate::common::faults::{Op, Rule};
use crate::common::fleet::wait_for;
use crate::common::library::LEASE;
use crate::common::many::Many;
use crate::common::s3::S3Server;
use crate::common::served::{Home, Served, TOKEN};

const LEAVES: usize = 60;

/// How far the step is that the page shows.
fn done(browser: &Browser) -> Option<f64> {
    browser
        .text("#step")
        .starts_with("columns:")
        .then_some(())?;
    browser
        .evaluate("document.getElementById('bar').value")
        .as_f64()
}

fn log_in(browser: &Browser, service: &Served) {
    browser.open(&service.url("/"));
    browser.wait("#trouble", |text| text.contains("Bearer"));
    browser.type_into("#token", TOKEN);
    browser.click("#login button");
    browser.wait("#trouble", str::is_empty);
}

#[test]
fn a_run_is_started_watched_stopped_and_found_again_on_the_page() {
    let server = S3Server::start();
    let bucket = server.bucket("page", &Many::leaves(LEAVES).tree);
    let stall = Duration::from_millis(120);
    server.follow([Rule::on([Op::Put])
        .key_contains(".pyramid.zarr/")
        .stall(stall)]);
    let home = Home::guarded(bucket.options(), &["s3://page"], "");
    let service = home.start();
    let browser = Browser::start();
    log_in(&browser, &service);

    browser.type_into("#root", "s3://elsewhere/x");
    browser.click("#start button");
    browser.wait("#trouble", |text| text.contains("not at or below a root"));
    browser.evaluate("document.getElementById('root').value = ''");

    browser.type_into("#root", &bucket.url());
    browser.click("#start button");
    browser.wait("#store", |text| text == bucket.url());
    let first = wait_for("progress", || done(&browser).filter(|done| *done > 0.0));
    let later = wait_for("more progress", || {
        done(&browser).filter(|done| *done > first)
    });
    assert!(later <= LEAVES as f64);
    let step = browser.text("#step");
    assert!(
        step.contains(&format!("of {LEAVES}")) && step.contains("/s"),
        "{step}"
    );
    assert!(browser.text("#lease").contains("lease held"));
    browser.wait("#traffic", |text| text.contains("in flight"));
    browser.wait("#runs tr td:nth-child(3)", |text| text == "running");

    assert!(browser.is_shown("#stop"));
    browser.click("#stop");
    browser.wait("#step", |text| text == "ended: interrupted");
    assert!(browser.text("#warning").contains("stopped by a request"));
    assert!(!browser.is_shown("#stop"));
    assert!(!server.tree(&bucket).contains_key(LEASE));
    let id = browser.text("#run");

    service.signal("TERM");
    assert_eq!(service.end().code(), Some(0));
    let service = home.start();
    browser.open(&service.url("/"));
    browser.type_into("#token", TOKEN);
    browser.click("#login button");
    browser.wait("#runs tr td:nth-child(1)", |text| text == id);
    assert_eq!(browser.text("#runs tr td:nth-child(3)"), "interrupted");
    browser.click("#runs tr button");
    browser.wait("#step", |text| text == "ended: interrupted");
    assert!(browser.text("#warning").contains("stopped by a request"));
    let strangers = "performance.getEntriesByType('resource').map(entry => new URL(entry.name).host).filter(host => host !== location.host).length";
    assert_eq!(
        browser.evaluate(strangers),
        0,
        "the page asks nobody else for anything"
    );
}
