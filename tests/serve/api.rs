//! The service as its clients meet it, over HTTP.

use std::process::Stdio;
use std::time::Duration;

use crate::common::bucket::Bucket;
use crate::common::cases::{Case, Law};
use crate::common::compare::assert_all;
use crate::common::faults::{Op, Rule};
use crate::common::fleet::wait_for;
use crate::common::library::LEASE;
use crate::common::many::Many;
use crate::common::s3::S3Server;
use crate::common::served::{Home, TOKEN, drain};
use serde_json::json;

const LEAVES: usize = 24;

/// A store whose columns are slow to write.
fn slow(server: &S3Server, name: &str) -> Bucket {
    let bucket = server.bucket(name, &Many::leaves(LEAVES).tree);
    let stall = Duration::from_millis(100);
    server.follow([Rule::on([Op::Put])
        .key_contains(".pyramid.zarr/")
        .stall(stall)]);
    bucket
}

fn has_column(server: &S3Server, bucket: &Bucket) {
    wait_for("a column", || {
        let tree = server.tree(bucket);
        tree.keys()
            .any(|key| key.contains(".pyramid.zarr/"))
            .then_some(())
    });
}

#[test]
fn an_upgrade_is_started_followed_and_remembered_over_a_restart() {
    let case = Case::load("plain");
    let server = S3Server::start();
    let bucket = server.bucket("upgraded", &case.declared(Law::Boundary));
    let home = Home::guarded(bucket.options(), &["s3://upgraded"], "");
    let service = home.start();
    service.ask_with("GET", "/healthz", None, &[]).expect(200);
    service.ask_with("GET", "/readyz", None, &[]).expect(200);
    let id = service.upgrade(&bucket.url(), "{}");
    let events = service.events(&id, None);
    let names: Vec<&str> = events
        .iter()
        .map(|(_, event)| event["event"].as_str().unwrap())
        .collect();
    for name in [
        "started",
        "step-started",
        "progress",
        "written",
        "lease-held",
        "finished",
    ] {
        assert!(names.contains(&name), "{name}: {names:?}");
    }
    assert_eq!(events.last().unwrap().1["outcome"], "done");
    let run = service.wait_for(&id, "ended");
    assert_eq!(run["outcome"], "done");
    assert_eq!(run["account"]["counts"]["written"], case.leaves().len());
    let mut tree = server.tree(&bucket);
    tree.retain(|key, _| !key.starts_with("upgrade_"));
    assert_all(&case.upgraded(Law::Boundary), &tree);

    // Whoever comes back goes on behind what it has seen.
    let seen = events[2].0.unwrap();
    let rest = service.events(&id, Some(seen));
    assert_eq!(rest, events[3..]);
    assert_eq!(
        service.metric("zagg_artifacts_total{outcome=\"written\"}") as usize,
        names.iter().filter(|name| **name == "written").count()
    );
    assert_eq!(service.metric("zagg_runs{state=\"ended\"}"), 1);

    service.signal("TERM");
    assert_eq!(service.end().code(), Some(0));
    let service = home.start();
    let list = service.ask("GET", "/v1/upgrades", None).expect(200).json();
    assert_eq!(list["upgrades"][0]["id"], id.as_str());
    assert_eq!(service.run(&id), run);
    let events = service.events(&id, None);
    assert_eq!(
        events.last().unwrap().1,
        json!({"event": "finished", "outcome": "done"})
    );
}

#[test]
fn requests_that_may_not_be_are_refused_with_what_to_do() {
    let server = S3Server::start();
    let bucket = server.bucket("guarded", &Many::leaves(1).tree);
    let home = Home::guarded(
        bucket.options(),
        &["s3://guarded/hive"],
        "max_body = \"1 KiB\"",
    );
    let service = home.start();
    let order = format!("{{\"root\": {:?}}}", bucket.url());
    for headers in [
        &[][..],
        &[("authorization", "Bearer wrong-wrong-wrong-wrong")],
        &[("authorization", TOKEN)],
    ] {
        for (method, path, body) in [
            ("GET", "/v1/upgrades", None),
            ("POST", "/v1/upgrades", Some(order.as_str())),
            ("GET", "/v1/upgrades/x/events", None),
            ("DELETE", "/v1/upgrades/x", None),
            ("GET", "/metrics", None),
        ] {
            let answer = service.ask_with(method, path, body, headers).expect(401);
            assert!(answer.json()["error"].as_str().unwrap().contains("Bearer"));
            assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
        }
    }
    let large = format!("{{\"root\": \"{}\"}}", "x".repeat(2048));
    let post = |body: &str| service.ask("POST", "/v1/upgrades", Some(body));
    assert!(post(&large).expect(413).text.contains("max_body"));
    for elsewhere in [
        "s3://guarded/hive/../private",
        "s3://guarded/hives",
        "s3://guarded",
        "s3://other/hive",
        "/etc",
        "hive",
        "memory://hive",
        "s3://guarded/hive%2F..",
    ] {
        let answer = post(&json!({"root": elsewhere}).to_string());
        assert_eq!(answer.status, 403, "{elsewhere}: {answer:?}");
    }
    post("{\"root\": 3}").expect(400);
    post("not json").expect(400);
    post(&json!({"root": bucket.url(), "options": {"forse": true}}).to_string()).expect(400);
    post(&json!({"root": bucket.url(), "options": {"overviews": [5]}}).to_string()).expect(422);
    post(&json!({"root": bucket.url(), "options": {"shards": ["9"]}}).to_string()).expect(422);
    let bearer = format!("Bearer {TOKEN}");
    let text = [
        ("authorization", bearer.as_str()),
        ("content-type", "text/plain"),
    ];
    service
        .ask_with("POST", "/v1/upgrades", None, &text)
        .expect(415);
    service.ask("GET", "/v1/upgrades/none", None).expect(404);
    service.ask("DELETE", "/v1/upgrades/none", None).expect(404);
    service.ask("GET", "/v1/nothing", None).expect(404);
    assert_eq!(
        service.ask("GET", "/v1/upgrades", None).json(),
        json!({"upgrades": []})
    );
}

#[test]
fn without_a_token_pages_of_elsewhere_cannot_start_anything() {
    let home = Home::new(&[], &[], "");
    let service = home.start();
    service.ask("GET", "/v1/upgrades", None).expect(200);
    for header in [("host", "evil.example"), ("origin", "http://evil.example")] {
        service
            .ask_with("GET", "/v1/upgrades", None, &[header])
            .expect(403);
    }
    let ended = home
        .command("0.0.0.0:0")
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    assert_eq!(ended.status.code(), Some(3));
    let stderr = String::from_utf8(ended.stderr).unwrap();
    assert!(stderr.contains("token_file"), "{stderr}");
    let second = home
        .command("127.0.0.1:0")
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    assert_eq!(second.status.code(), Some(3));
    let stderr = String::from_utf8(second.stderr).unwrap();
    assert!(stderr.contains("another service has it"), "{stderr}");
}

#[test]
fn a_store_has_one_run_and_the_queue_an_end() {
    let server = S3Server::start();
    let first = slow(&server, "first");
    let others: Vec<Bucket> = ["second", "third"]
        .iter()
        .map(|name| server.bucket(name, &Many::leaves(1).tree))
        .collect();
    let home = Home::new(
        first.options(),
        &["s3://first", "s3://second", "s3://third"],
        "max_queued = 1",
    );
    let service = home.start();
    let id = service.upgrade(&first.url(), "{}");
    service.wait_for(&id, "running");
    for same in [first.url(), format!("{}/", first.url())] {
        let body = json!({"root": same}).to_string();
        let busy = service
            .ask("POST", "/v1/upgrades", Some(&body))
            .expect(409)
            .json();
        assert_eq!(busy["run"], id.as_str());
        assert!(busy["error"].as_str().unwrap().contains(&id));
    }
    let waiting = service.upgrade(&others[0].url(), "{}");
    assert_eq!(service.run(&waiting)["state"], "queued");
    let body = json!({"root": others[1].url()}).to_string();
    let full = service.ask("POST", "/v1/upgrades", Some(&body)).expect(429);
    assert!(full.header("retry-after").is_some());

    // One that waits is stopped at once, one that works finishes what it is writing.
    service
        .ask("DELETE", &format!("/v1/upgrades/{waiting}"), None)
        .expect(202);
    let stopped = service.wait_for(&waiting, "interrupted");
    assert!(stopped["started_at"].is_null());
    has_column(&server, &first);
    service
        .ask("DELETE", &format!("/v1/upgrades/{id}"), None)
        .expect(202);
    let stopped = service.wait_for(&id, "interrupted");
    assert_eq!(stopped["outcome"], "interrupted");
    assert!(
        stopped["error"]
            .as_str()
            .unwrap()
            .contains("stopped by a request")
    );
    assert!(
        !server.tree(&first).contains_key(LEASE),
        "the lease is given back"
    );
    service
        .ask("DELETE", &format!("/v1/upgrades/{id}"), None)
        .expect(409);
}

#[test]
fn a_follower_that_does_not_read_holds_nothing_up_and_is_told_what_it_missed() {
    let server = S3Server::start();
    let bucket = slow(&server, "followed");
    let home = Home::new(bucket.options(), &["s3://followed"], "kept_events = 4");
    let service = home.start();
    let id = service.upgrade(&bucket.url(), "{}");
    service.wait_for(&id, "running");
    let mut stuck = service.stuck_follower(&id);
    wait_for("the follower", || {
        (service.metric("zagg_followers") == 1).then_some(())
    });
    server.follow([]);
    let run = service.wait_for(&id, "ended");
    assert_eq!(run["outcome"], "done");
    // It gets what fitted on the way to it, and can come back for the rest.
    let got = drain(&mut stuck);
    assert!(got.contains("text/event-stream"), "{got}");
    drop(stuck);
    wait_for("its end", || {
        (service.metric("zagg_followers") == 0).then_some(())
    });
    let events = service.events(&id, Some(0));
    assert_eq!(events[0].1["event"], "missed", "{events:?}");
    let missed = events[0].1["events"].as_u64().unwrap();
    assert_eq!(events[1].0, Some(missed + 1));
    assert_eq!(events.len(), 1 + 4);
    assert_eq!(events.last().unwrap().1["event"], "finished");
    assert!(service.metric("zagg_missed_events_total") >= missed as i64);
}

#[test]
fn a_stop_drains_and_gives_the_lease_back() {
    let server = S3Server::start();
    let bucket = slow(&server, "drained");
    let home = Home::new(bucket.options(), &["s3://drained"], "");
    let service = home.start();
    let id = service.upgrade(&bucket.url(), "{}");
    has_column(&server, &bucket);
    let stuck = service.stuck_follower(&id);
    service.signal("TERM");
    assert_eq!(service.end().code(), Some(0));
    drop(stuck);
    assert!(!server.tree(&bucket).contains_key(LEASE));
    let run = home.start().run(&id);
    assert_eq!(run["state"], "interrupted");
    assert!(
        run["error"].as_str().unwrap().contains("the service"),
        "{run}"
    );
}

#[test]
fn a_service_that_is_killed_marks_its_runs_when_it_is_back_and_they_can_go_on() {
    let server = S3Server::start();
    let bucket = slow(&server, "killed");
    let home = Home::new(bucket.options(), &["s3://killed"], "");
    let service = home.start();
    let id = service.upgrade(&bucket.url(), "{}");
    has_column(&server, &bucket);
    service.signal("KILL");
    service.end();
    server.follow([]);
    let service = home.start();
    let run = service.run(&id);
    assert_eq!(run["state"], "interrupted");
    assert!(
        run["error"].as_str().unwrap().contains("start it again"),
        "{run}"
    );
    // The lease of the run that was killed stands until it expires.
    let again = service.upgrade(&bucket.url(), "{}");
    let run = service.wait_for(&again, "ended");
    assert_eq!(run["outcome"], "refused");
    assert!(
        run["error"].as_str().unwrap().contains("try again after"),
        "{run}"
    );
}
