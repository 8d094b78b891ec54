//! A job definition of AWS Batch and two jobs: a coordinator, and an array job of its workers.

use serde_json::{Value, json};

use super::{PROGRAM, Script};

/// Whom containers run as, which is nobody in particular.
const USER: &str = "65532";

/// Tries of a worker, the most there are: it may have to wait for its coordinator.
const WORKER_TRIES: u32 = 10;

/// Tries of a coordinator whose machine is lost.
const COORDINATOR_TRIES: u32 = 3;

/// Ends a document in the script; no line of JSON is this.
const END: &str = "END_OF_JSON";

/// A shell script that submits both jobs; the documents are in it.
pub(super) fn script(script: &Script, image: &str, queue: &str, role: Option<&str>) -> String {
    let name = &script.name;
    let needs_role = match role {
        Some(_) => "",
        None => {
            "No --job-role was given: the containers have the rights of their instances, or none.\n"
        }
    };
    let rest = format!(
        "start:   sh FILE, where `aws` is set up for the account and region of the queue\n\
         follow:  the log stream of {name}-coordinator; its account is at the end\n\
         stop:    aws batch terminate-job --reason stop --job-id ID, first of the coordinator\n\
         again:   sh FILE; it goes on where it was\n\
         \n\
         The image has `{PROGRAM}` on its PATH, the certificates of public authorities, and\n\
         no entrypoint, or one that runs its arguments. For Fargate set platformCapabilities\n\
         to FARGATE and add what that asks for: executionRoleArn, networkConfiguration.\n\
         A coordinator that was killed leaves a lease; start again when it has expired.\n\
         {needs_role}"
    );
    let mut text = "#!/bin/sh\n".to_owned();
    text.push_str(&script.preamble("AWS Batch", &rest));
    text.push_str(
        "set -eu\ndocuments=$(mktemp -d)\ntrap 'rm -rf \"$documents\"' EXIT\n\n\
         # What both jobs have in common. Registering it again makes another revision of it.\n",
    );
    let definition = definition(script, image, role);
    text.push_str(&request("register-job-definition", &definition));
    text.push_str("\n# The coordinator.\n");
    text.push_str(&request("submit-job", &coordinator(script, queue)));
    text.push_str("\n# The workers. Each knows its number by AWS_BATCH_JOB_ARRAY_INDEX.\n");
    text.push_str(&request("submit-job", &workers(script, queue)));
    text
}

/// Lines that send a document.
fn request(operation: &str, document: &Value) -> String {
    format!(
        "cat >\"$documents/request.json\" <<'{END}'\n{document:#}\n{END}\n\
         aws batch {operation} --cli-input-json \"file://$documents/request.json\"\n"
    )
}

fn definition(script: &Script, image: &str, role: Option<&str>) -> Value {
    let mut container = json!({
        "image": image,
        "command": command(script.worker()),
        "resourceRequirements": [
            {"type": "VCPU", "value": script.cpus.to_string()},
            {"type": "MEMORY", "value": script.memory_mib.to_string()},
        ],
        "user": USER,
        "readonlyRootFilesystem": true,
    });
    if let Some(role) = role {
        container["jobRoleArn"] = json!(role);
    }
    json!({
        "jobDefinitionName": script.name,
        "type": "container",
        "platformCapabilities": ["EC2"],
        "containerProperties": container,
    })
}

fn coordinator(script: &Script, queue: &str) -> Value {
    json!({
        "jobName": format!("{}-coordinator", script.name),
        "jobQueue": queue,
        "jobDefinition": script.name,
        "containerOverrides": {"command": command(script.coordinator(""))},
        "retryStrategy": {
            "attempts": COORDINATOR_TRIES,
            "evaluateOnExit": [
                {"onStatusReason": "Host EC2*", "action": "RETRY"},
                {"onReason": "*", "action": "EXIT"},
            ],
        },
    })
}

fn workers(script: &Script, queue: &str) -> Value {
    json!({
        "jobName": format!("{}-workers", script.name),
        "jobQueue": queue,
        "jobDefinition": script.name,
        "arrayProperties": {"size": script.workers},
        "containerOverrides": {"command": command(script.worker())},
        "retryStrategy": {
            "attempts": WORKER_TRIES,
            // The run is over and some of its leaves failed, or the arguments are wrong.
            "evaluateOnExit": [
                {"onExitCode": "1", "action": "EXIT"},
                {"onExitCode": "2", "action": "EXIT"},
            ],
        },
    })
}

fn command(args: Vec<String>) -> Vec<String> {
    std::iter::once(PROGRAM.to_owned()).chain(args).collect()
}
