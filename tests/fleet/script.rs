//! What `fleet script` prints: objects as Kubernetes and AWS Batch know them, whose commands
//! do the upgrade as they stand.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Container, PodSpec};
use saphyr::{LoadableYamlNode, Scalar, Yaml};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tempfile::TempDir;

use crate::common::binary::{Running, Zagg};
use crate::common::bucket::Bucket;
use crate::common::cases::{Case, Law};
use crate::common::fleet::{assert_upgraded, settings_file};
use crate::common::python::batch_py;
use crate::common::s3::S3Server;

/// What is printed for `root`.
fn printed(root: &str, engine: &str, args: &[&str]) -> String {
    let script = Zagg::new("fleet").args(&["script", root, "--engine", engine]);
    script.args(args).run().expect_code(0).stdout
}

/// What is said when nothing is printed.
fn refused(root: &str, engine: &str, args: &[&str]) -> String {
    let script = Zagg::new("fleet").args(&["script", root, "--engine", engine]);
    let output = script.args(args).run().expect_code(2);
    assert_eq!(output.stdout, "");
    output.stderr
}

/// Starts what a container with this command line does, with these variables alone.
fn start(bucket: &Bucket, command: &[String], variable: Option<(&str, String)>) -> Running {
    let (program, args) = command.split_first().unwrap();
    assert_eq!(program, "zagg-stream");
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let container = bucket.environment(Zagg::bare()).args(&args);
    let container = match variable {
        Some((name, value)) => container.env(name, &value),
        None => container,
    };
    container.start()
}

/// The documents of a manifest.
fn documents(manifest: &str) -> Vec<Value> {
    let documents = Yaml::load_from_str(manifest).unwrap();
    documents.iter().map(json_of).collect()
}

fn json_of(yaml: &Yaml<'_>) -> Value {
    match yaml {
        Yaml::Value(Scalar::Null) => Value::Null,
        Yaml::Value(Scalar::Boolean(value)) => (*value).into(),
        Yaml::Value(Scalar::Integer(value)) => (*value).into(),
        Yaml::Value(Scalar::FloatingPoint(value)) => value.into_inner().into(),
        Yaml::Value(Scalar::String(value)) => value.as_ref().into(),
        Yaml::Sequence(items) => items.iter().map(json_of).collect(),
        Yaml::Mapping(entries) => {
            let entry = |(key, value)| (json_of(key).as_str().unwrap().to_owned(), json_of(value));
            entries.iter().map(entry).collect()
        }
        other => panic!("{other:?} has no place in a manifest"),
    }
}

/// A document as the object it says it is, which knows all of its fields.
fn object<T: DeserializeOwned + Serialize>(document: &Value) -> T {
    let object: T = serde_json::from_value(document.clone()).unwrap();
    assert_known(document, &serde_json::to_value(&object).unwrap(), "");
    object
}

/// Fails on a field that a typed object has not taken over.
fn assert_known(document: &Value, object: &Value, at: &str) {
    match (document, object) {
        (Value::Object(fields), Value::Object(known)) => {
            for (name, value) in fields {
                let at = format!("{at}/{name}");
                let known = known
                    .get(name)
                    .unwrap_or_else(|| panic!("{at} is no field"));
                assert_known(value, known, &at);
            }
        }
        (Value::Array(items), Value::Array(known)) => {
            assert_eq!(items.len(), known.len(), "{at}");
            for (nth, (item, known)) in items.iter().zip(known).enumerate() {
                assert_known(item, known, &format!("{at}/{nth}"));
            }
        }
        // Quantities are texts, whether or not they are written as numbers.
        (Value::Number(number), Value::String(text)) => assert_eq!(&number.to_string(), text),
        _ => assert_eq!(document, object, "{at}"),
    }
}

fn pod(job: &Job) -> &PodSpec {
    let spec = job.spec.as_ref().unwrap();
    spec.template.spec.as_ref().unwrap()
}

fn container(job: &Job) -> &Container {
    let [container] = pod(job).containers.as_slice() else {
        panic!("one container in {job:?}");
    };
    container
}

/// What a kubelet runs; `files` is where volumes are mounted on this machine.
fn command(job: &Job, files: &Path) -> Vec<String> {
    let container = container(job);
    let words = container.command.iter().chain(&container.args).flatten();
    let mounts: Vec<&str> = container
        .volume_mounts
        .iter()
        .flatten()
        .map(|mount| mount.mount_path.as_str())
        .collect();
    let mounted = |word: String| match mounts.iter().find_map(|at| word.strip_prefix(at)) {
        Some(below) => format!("{}{below}", files.display()),
        None => word,
    };
    words.map(|word| mounted(word.replace("$$", "$"))).collect()
}

#[test]
fn the_jobs_of_kubernetes_are_objects_of_its_api_whose_commands_do_the_upgrade() {
    const WORKERS: i32 = 2;
    let case = Case::load("plain");
    let server = S3Server::start();
    let bucket = server.bucket("kubernetes", &case.declared(Law::Boundary));
    let dir = TempDir::new().unwrap();
    let settings = settings_file(dir.path(), "lease_ttl_s = 15\n");
    let options = ["--image", "registry/zagg:1", "--workers", "2", "--settings"];
    let options = [&options[..], &[settings.to_str().unwrap()]].concat();
    let manifest = printed(&bucket.url(), "kubernetes", &options);
    let documents = documents(&manifest);
    let [files, coordinator, workers] = documents.as_slice() else {
        panic!("three documents in {manifest}");
    };
    let files: ConfigMap = object(files);
    let (coordinator, workers): (Job, Job) = (object(coordinator), object(workers));

    let spec = workers.spec.as_ref().unwrap();
    assert_eq!(spec.completion_mode.as_deref(), Some("Indexed"));
    assert_eq!(spec.completions, Some(WORKERS));
    assert_eq!(spec.parallelism, Some(WORKERS));
    for job in [&coordinator, &workers] {
        // What policies of failed pods ask for.
        assert_eq!(pod(job).restart_policy.as_deref(), Some("Never"));
        let rules = job.spec.as_ref().unwrap().pod_failure_policy.as_ref();
        let named = rules.unwrap().rules.iter().filter_map(|rule| {
            let on_codes = rule.on_exit_codes.as_ref()?;
            on_codes.container_name.as_deref()
        });
        assert_eq!(named.collect::<Vec<_>>(), [container(job).name.as_str()]);
        assert_eq!(container(job).image.as_deref(), Some("registry/zagg:1"));
    }
    let volumes = pod(&coordinator).volumes.iter().flatten();
    let sent: Vec<_> = volumes
        .filter_map(|volume| volume.config_map.as_ref())
        .collect();
    assert_eq!(sent[0].name, files.metadata.name.clone().unwrap());

    let mounted = TempDir::new().unwrap();
    for (name, text) in files.data.unwrap() {
        std::fs::write(mounted.path().join(name), text).unwrap();
    }
    let coordinator = start(&bucket, &command(&coordinator, mounted.path()), None);
    let command = command(&workers, mounted.path());
    let workers: Vec<Running> = (0..WORKERS)
        .map(|index| ("JOB_COMPLETION_INDEX", index.to_string()))
        .map(|variable| start(&bucket, &command, Some(variable)))
        .collect();
    coordinator.wait().expect_code(0);
    for worker in workers {
        worker.wait().expect_code(0);
    }
    assert_upgraded(&case, server.tree(&bucket));
}

/// In the place of the command line of AWS: keeps what it is asked.
const AWS: &str = r#"#!/bin/sh
set -eu
test "$1" = batch
test "$3" = --cli-input-json
requests=$(dirname "$0")
number=$(ls "$requests" | grep -c json || true)
cp "${4#file://}" "$requests/$number-$2.json"
"#;

/// What the script asks of AWS, as operation and request, when a shell runs it.
fn requests(script: &str) -> Vec<(String, Value)> {
    let dir = TempDir::new().unwrap();
    let aws = dir.path().join("aws");
    std::fs::write(&aws, AWS).unwrap();
    let made = Command::new("chmod").arg("+x").arg(&aws).status();
    assert!(made.unwrap().success());
    let file = dir.path().join("script");
    std::fs::write(&file, script).unwrap();
    let path = format!(
        "{}:{}",
        dir.path().display(),
        std::env::var("PATH").unwrap()
    );
    let ran = Command::new("sh")
        .arg(&file)
        .env("PATH", path)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(ran.status.success(), "{ran:?}");
    let kept = std::fs::read_dir(dir.path()).unwrap().flatten();
    let kept = kept.filter_map(|entry| {
        let name = entry.file_name().into_string().unwrap();
        let request = std::fs::read(entry.path()).unwrap();
        let operation = name.strip_suffix(".json")?.to_owned();
        Some((operation, serde_json::from_slice(&request).unwrap()))
    });
    let in_order: BTreeMap<String, Value> = kept.collect();
    in_order.into_iter().collect()
}

fn command_of(request: &Value) -> Vec<String> {
    let command = &request["containerOverrides"]["command"];
    serde_json::from_value(command.clone()).unwrap()
}

#[test]
fn the_requests_to_aws_batch_are_of_its_api_and_their_commands_do_the_upgrade() {
    let case = Case::load("plain");
    let server = S3Server::start();
    let bucket = server.bucket("batch", &case.declared(Law::Boundary));
    let options = ["--image", "registry/zagg:1", "--job-queue", "spot"];
    let options = [&options[..], &["--job-role", "arn:aws:iam::1:role/zagg"]].concat();
    let options = [&options[..], &["--workers", "2"]].concat();
    let requests = requests(&printed(&bucket.url(), "aws-batch", &options));
    let names: Vec<&str> = requests.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(
        names,
        ["0-register-job-definition", "1-submit-job", "2-submit-job"]
    );
    let [(_, definition), (_, coordinator), (_, workers)] = requests.as_slice() else {
        panic!("three requests in {requests:?}");
    };
    batch_py("RegisterJobDefinition", definition);
    batch_py("SubmitJob", coordinator);
    batch_py("SubmitJob", workers);
    for job in [coordinator, workers] {
        assert_eq!(job["jobDefinition"], definition["jobDefinitionName"]);
        assert_eq!(job["jobQueue"], "spot");
    }
    assert_eq!(workers["arrayProperties"]["size"], 2);
    assert!(coordinator.get("arrayProperties").is_none());

    let coordinator = start(&bucket, &command_of(coordinator), None);
    let workers = [0, 1].map(|index: u32| {
        let variable = ("AWS_BATCH_JOB_ARRAY_INDEX", index.to_string());
        start(&bucket, &command_of(workers), Some(variable))
    });
    coordinator.wait().expect_code(0);
    for worker in workers {
        worker.wait().expect_code(0);
    }
    assert_upgraded(&case, server.tree(&bucket));
}

#[test]
fn a_request_that_aws_batch_does_not_know_is_found() {
    let unknown = serde_json::json!({
        "jobName": "a", "jobQueue": "b", "jobDefinition": "c", "arraySize": 2,
    });
    let checked = std::panic::catch_unwind(|| batch_py("SubmitJob", &unknown));
    assert!(checked.is_err());
}

#[test]
fn an_option_that_the_engine_has_no_use_for_is_refused() {
    for (root, engine, args, said) in [
        (
            "/data/product",
            "kubernetes",
            &["--image", "a"][..],
            "cannot reach it",
        ),
        ("s3://b/p", "kubernetes", &[], "needs --image"),
        (
            "s3://b/p",
            "kubernetes",
            &["--image", "a", "--time", "5"],
            "--time is not for",
        ),
        (
            "s3://b/p",
            "aws-batch",
            &["--image", "a"],
            "needs --job-queue",
        ),
        ("s3://b/p", "slurm", &["--image", "a"], "--image is not for"),
        ("s3://b/p", "slurm", &["--overviews", "3"], "--config"),
    ] {
        let error = refused(root, engine, args);
        assert!(error.contains(said), "{engine} {args:?}: {error}");
    }
}

#[test]
fn a_batch_script_survives_any_root() {
    let root = "s3://bucket/it's $(a) \"größe\"";
    for (engine, args) in [
        ("slurm", &[][..]),
        ("aws-batch", &["--image", "a", "--job-queue", "q"][..]),
    ] {
        let script = printed(root, engine, args);
        let mut shell = Command::new("bash")
            .args(["-n", "-s"])
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = shell.stdin.take().unwrap();
        std::io::Write::write_all(&mut stdin, script.as_bytes()).unwrap();
        drop(stdin);
        let output = shell.wait_with_output().unwrap();
        assert!(
            output.status.success() && output.stderr.is_empty(),
            "{output:?}"
        );
    }
    let requests = requests(&printed(
        root,
        "aws-batch",
        &["--image", "a", "--job-queue", "q"],
    ));
    assert_eq!(command_of(&requests[1].1)[2], root);
}
