//! A Python that has the writer and the readers of cubes, and the model of AWS's APIs.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use serde_json::Value;

use crate::common::cases::data_dir;

/// The variable that says where the program is.
const VARIABLE: &str = "ZAGG_TEST_PYTHON";

/// What has to be importable.
const IMPORTS: &str = "import botocore, obstore, xarray, zarr";

/// How it is installed.
const CURE: &str = "install them once, from the root of the repository, with `python3 -m venv target/moto && \
                    target/moto/bin/pip install 'moto[server]==5.2.5' zarr==3.1.6 xarray==2026.9.0 obstore==0.12.1`, where they are \
                    found by themselves, or say in ZAGG_TEST_PYTHON which Python has them";

/// Runs `tests/data/cube/cube.py` and returns the JSON document it prints.
pub(crate) fn cube_py(args: &[&str], environment: &[(String, String)]) -> Value {
    let output = Command::new(python())
        .arg("-W")
        .arg("ignore")
        .arg(data_dir().join("cube/cube.py"))
        .args(args)
        .envs(environment.iter().cloned())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "cube.py {args:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Fails unless `request` is one that this operation of AWS Batch takes.
#[track_caller]
pub(crate) fn batch_py(operation: &str, request: &Value) {
    let mut check = Command::new(python())
        .arg(data_dir().join("fleet/aws_batch.py"))
        .arg(operation)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = check.stdin.take().unwrap();
    stdin.write_all(request.to_string().as_bytes()).unwrap();
    drop(stdin);
    let output = check.wait_with_output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// The first Python that has everything, or a failure that says how to install it.
fn python() -> &'static Path {
    static FOUND: OnceLock<PathBuf> = OnceLock::new();
    FOUND.get_or_init(|| {
        let given = std::env::var_os(VARIABLE).map(PathBuf::from);
        let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/moto/bin/python");
        let candidates = match given {
            Some(given) => vec![given],
            None => vec![ours, PathBuf::from("python3")],
        };
        let has_all = |python: &PathBuf| {
            let tried = Command::new(python).args(["-c", IMPORTS]).output();
            tried.is_ok_and(|tried| tried.status.success())
        };
        candidates.into_iter().find(has_all).unwrap_or_else(|| {
            panic!("these tests need a Python with zarr, xarray, obstore and botocore, which is not to be found; {CURE}")
        })
    })
}
