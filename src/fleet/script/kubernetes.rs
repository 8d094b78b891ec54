//! Two Jobs of Kubernetes: a coordinator, and an Indexed Job of its workers.

use std::fmt::Write;

use serde_json::json;

use super::{PROGRAM, Script};

/// Retries with a delay that doubles from 10 s up to six minutes: 22 minutes in all, longer
/// than the lease of a coordinator that was killed is in the way of the next one.
const RETRIES: u32 = 8;

/// Seconds that a coordinator has to end in: it gives its workers two minutes.
const COORDINATOR_GRACE_S: u32 = 180;

/// Seconds that a worker has to finish in what it is writing.
const WORKER_GRACE_S: u32 = 120;

/// Whom containers run as, which is nobody in particular.
const USER: u32 = 65532;

/// Where the coordinator finds the files that were sent along.
const FILES_AT: &str = "/etc/zagg-stream";

/// Several documents of YAML.
pub(super) fn manifest(script: &Script, image: &str) -> String {
    let name = &script.name;
    let rest = format!(
        "start:   kubectl apply -f FILE\n\
         follow:  kubectl logs -f job/{name}-coordinator; its account is at the end\n\
         stop:    kubectl delete -f FILE; what is being written is finished, nothing is lost\n\
         again:   kubectl delete -f FILE, then kubectl apply -f FILE; it goes on where it was\n\
         \n\
         Check before you start: the credentials, twice below; the resources; the namespace.\n\
         The image has `{PROGRAM}` on its PATH and the certificates of public authorities.\n\
         Needs Kubernetes 1.29 or later, for backoffLimitPerIndex.\n"
    );
    let mut text = script.preamble("Kubernetes", &rest);
    text.push_str(&files(script));
    text.push_str(&coordinator(script, image));
    text.push_str(&workers(script, image));
    text
}

/// The files that the coordinator reads.
fn files(script: &Script) -> String {
    if script.files.is_empty() {
        return String::new();
    }
    let name = scalar(&format!("{}-files", script.name));
    let mut text =
        format!("---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\ndata:\n");
    for file in &script.files {
        // Writing to a String does not fail.
        let _ = writeln!(text, "  {}: {}", scalar(file.name), scalar(&file.text));
    }
    text
}

fn coordinator(script: &Script, image: &str) -> String {
    let name = scalar(&format!("{}-coordinator", script.name));
    let (mut mounts, mut volumes) = (String::new(), String::new());
    if !script.files.is_empty() {
        let files = scalar(&format!("{}-files", script.name));
        mounts = format!(
            "          volumeMounts:\n            - {{name: files, mountPath: {}, readOnly: true}}\n",
            scalar(FILES_AT)
        );
        volumes =
            format!("      volumes:\n        - {{name: files, configMap: {{name: {files}}}}}\n");
    }
    let head = format!(
        "---
apiVersion: batch/v1
kind: Job
metadata:
  name: {name}
spec:
  completions: 1
  parallelism: 1
  # A coordinator that was killed leaves a lease, and the next one is refused until it
  # expires: these retries last longer.
  backoffLimit: {RETRIES}
  podFailurePolicy:
    rules:
      # A node that is drained or lost is no failure.
      - action: Ignore
        onPodConditions: [{{type: DisruptionTarget, status: \"True\"}}]
      # Leaves that failed, findings, wrong arguments: another try would say the same.
      - action: FailJob
        onExitCodes: {{containerName: {PROGRAM}, operator: In, values: [1, 2]}}
  template:
    spec:
"
    );
    let pod = Pod {
        args: script.coordinator(FILES_AT),
        image,
        cpus: 1,
        memory_mib: script.memory_mib,
        grace_s: COORDINATOR_GRACE_S,
    };
    format!("{head}{}{mounts}{volumes}", pod.spec())
}

fn workers(script: &Script, image: &str) -> String {
    let name = scalar(&format!("{}-workers", script.name));
    let workers = script.workers;
    let head = format!(
        "---
apiVersion: batch/v1
kind: Job
metadata:
  name: {name}
spec:
  completionMode: Indexed
  # As many at once as there are, or some would be left without a run to take part in.
  completions: {workers}
  parallelism: {workers}
  backoffLimitPerIndex: {RETRIES}
  podFailurePolicy:
    rules:
      - action: Ignore
        onPodConditions: [{{type: DisruptionTarget, status: \"True\"}}]
      # The run is over and some of its leaves failed, or the arguments are wrong.
      - action: FailIndex
        onExitCodes: {{containerName: {PROGRAM}, operator: In, values: [1, 2]}}
  template:
    spec:
"
    );
    let pod = Pod {
        args: script.worker(),
        image,
        cpus: script.cpus,
        memory_mib: script.memory_mib,
        grace_s: WORKER_GRACE_S,
    };
    format!("{head}{}", pod.spec())
}

/// What the two kinds of pods differ in.
struct Pod<'a> {
    args: Vec<String>,
    image: &'a str,
    cpus: u32,
    memory_mib: u64,
    grace_s: u32,
}

impl Pod<'_> {
    /// The spec of a pod, to which what belongs to its only container may be appended.
    fn spec(&self) -> String {
        let Self {
            cpus,
            memory_mib,
            grace_s,
            ..
        } = self;
        let mut args = String::new();
        for arg in &self.args {
            // Kubernetes takes `$(NAME)` for a variable, and `$$` for a dollar.
            let arg = arg.replace('$', "$$");
            // Writing to a String does not fail.
            let _ = writeln!(args, "            - {}", scalar(&arg));
        }
        let image = scalar(self.image);
        format!(
            "      restartPolicy: Never
      terminationGracePeriodSeconds: {grace_s}
      automountServiceAccountToken: false
      # Credentials: an identity of the cloud, bound to a service account (IRSA or Pod
      # Identity, Workload Identity of GKE or AKS), which is renewed for as long as it takes:
      # serviceAccountName: zagg-stream
      securityContext:
        runAsNonRoot: true
        runAsUser: {USER}
        runAsGroup: {USER}
        seccompProfile: {{type: RuntimeDefault}}
      containers:
        - name: {PROGRAM}
          image: {image}
          command: [{PROGRAM}]
          args:
{args}          # Credentials: or a secret, each of whose keys is a variable, such as
          # AWS_ACCESS_KEY_ID. Those that expire end the run, and it is started again.
          # envFrom: [{{secretRef: {{name: zagg-stream-credentials}}}}]
          resources:
            requests: {{cpu: {cpus}, memory: {memory_mib}Mi}}
            limits: {{memory: {memory_mib}Mi}}
          securityContext:
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            capabilities: {{drop: [ALL]}}
"
        )
    }
}

/// A text as a scalar of YAML on one line: that of JSON, but that YAML takes fewer characters
/// as they are.
fn scalar(text: &str) -> String {
    let is_safe = |c: char| matches!(c, ' '..='~' | '\u{a0}'..='\u{2027}' | '\u{202a}'..='\u{d7ff}' | '\u{e000}'..='\u{fefe}' | '\u{ff00}'..='\u{fffd}' | '\u{10000}'..);
    let mut scalar = String::new();
    for c in json!(text).to_string().chars() {
        if is_safe(c) {
            scalar.push(c);
        } else {
            // JSON has escaped those below a blank; no other one takes more than 16 bits.
            let _ = write!(scalar, "\\u{:04x}", c as u32);
        }
    }
    scalar
}

#[cfg(test)]
mod tests {
    use saphyr_parser::{Event, Parser};

    use super::super::tests::example;
    use super::*;

    fn scalars(text: &str) -> Vec<String> {
        let events = Parser::new_from_str(text).map(|event| event.unwrap().0);
        events
            .filter_map(|event| match event {
                Event::Scalar(value, ..) => Some(value.into_owned()),
                _ => None,
            })
            .collect()
    }

    #[test]
    fn a_scalar_says_the_text_whatever_is_in_it() {
        for text in [
            "",
            "plain",
            "it's a \"store\": # - [x] {y} & * ! | > % @ `",
            "größe 地図 😀",
            "line\nline\r\n\ttab\\",
            "a\u{7f}b\u{85}c\u{9f}d\u{2028}e\u{feff}f",
            "$(HOME) true null 1e3",
        ] {
            assert_eq!(scalars(&scalar(text)), [text], "{}", scalar(text));
        }
    }

    #[test]
    fn a_dollar_stays_a_dollar() {
        let script = Script {
            root: "s3://bucket/$(HOME)".to_owned(),
            ..example()
        };
        let scalars = scalars(&manifest(&script, "image"));
        assert!(scalars.contains(&"s3://bucket/$$(HOME)".to_owned()));
        assert!(!scalars.contains(&"s3://bucket/$(HOME)".to_owned()));
    }
}
