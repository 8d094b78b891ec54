//! What a person sees of a fleet.

use std::time::Duration;

use crate::common::faults::{Op, Rule};
use crate::common::many::Many;
use crate::common::s3::S3Server;
use crate::common::terminal::Terminal;

#[test]
fn a_person_sees_the_parts_how_fast_each_worker_is_and_who_has_the_longest_to_go() {
    let server = S3Server::start();
    let bucket = server.bucket("seen", &Many::leaves(40).tree);
    let slow = Rule::on([Op::Put]).key_contains(".pyramid.zarr/");
    server.follow([slow.stall(Duration::from_millis(150))]);
    let url = bucket.url();
    let args = [
        "upgrade",
        &url,
        "--fleet",
        "local:2",
        "--max-in-flight",
        "1",
    ];
    let terminal = Terminal::run(&args, bucket.options(), 30, 160);
    let screen = terminal.wait("workers", |screen| screen.contains("2 at work at "));
    assert!(screen.contains("of 8 parts ended"), "{screen}");
    assert!(screen.contains("/s each, longest to go: part "), "{screen}");
    server.follow([]);
    let (code, screen) = terminal.end();
    assert_eq!(code, 0, "{screen}");
}
