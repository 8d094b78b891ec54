//! The service as a process, and a client of it.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::common::fleet::wait_for;

/// A token of a service.
pub(crate) const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// Where a service keeps its things, which outlive it.
pub(crate) struct Home {
    dir: TempDir,
    env: Vec<(String, String)>,
}

/// A service that listens; killed when dropped.
pub(crate) struct Served {
    process: Child,
    address: String,
    token: Option<String>,
}

/// What a request was answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) text: String,
}

impl Answer {
    /// The body as JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// A header of it.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name)?;
        Some(&found.1)
    }

    /// This answer, which must have the status.
    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{self:?}");
        self
    }
}

impl Home {
    /// A home for services that reach stores by these variables and allow these roots.
    pub(crate) fn new(env: &[(String, String)], roots: &[&str], more: &str) -> Self {
        let home = Self {
            dir: TempDir::new().unwrap(),
            env: env.to_vec(),
        };
        let state = home.dir.path().join("state");
        let settings = home.dir.path().join("settings.toml");
        fs::write(
            &settings,
            "max_in_flight = 4\nmax_writers = 2\nlease_ttl_s = 30",
        )
        .unwrap();
        let text =
            format!("roots = {roots:?}\nstate_dir = {state:?}\nsettings = {settings:?}\n{more}\n");
        fs::write(home.config(), text).unwrap();
        home
    }

    /// With a token.
    pub(crate) fn guarded(env: &[(String, String)], roots: &[&str], more: &str) -> Self {
        let mut home = Self::new(env, roots, more);
        let token = home.dir.path().join("token");
        fs::write(&token, format!("{TOKEN}\n")).unwrap();
        let config = fs::read_to_string(home.config()).unwrap();
        fs::write(home.config(), format!("token_file = {token:?}\n{config}")).unwrap();
        home.env.push(("TEST_TOKEN".to_owned(), TOKEN.to_owned()));
        home
    }

    /// Its directory.
    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn config(&self) -> PathBuf {
        self.dir.path().join("serve.toml")
    }

    /// `serve` with this configuration.
    pub(crate) fn command(&self, listen: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_zagg-stream"));
        command.args(["serve", "--listen", listen, "--config"]);
        command.arg(self.config());
        command.envs(self.env.iter().cloned());
        command
    }

    /// Starts a service on a port of its choice.
    pub(crate) fn start(&self) -> Served {
        let mut process = self
            .command("127.0.0.1:0")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let address = line.trim().strip_prefix("listening on http://");
        let token = self.env.iter().find(|(name, _)| name == "TEST_TOKEN");
        Served {
            address: address
                .unwrap_or_else(|| panic!("it says {line:?}"))
                .to_owned(),
            process,
            token: token.map(|(_, token)| token.clone()),
        }
    }
}

impl Served {
    /// Its address as a page.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Asks for something, with the token if there is one.
    pub(crate) fn ask(&self, method: &str, path: &str, body: Option<&str>) -> Answer {
        let bearer = self.token.as_ref().map(|token| format!("Bearer {token}"));
        let headers: Vec<(&str, &str)> = bearer
            .iter()
            .map(|bearer| ("authorization", bearer.as_str()))
            .collect();
        self.ask_with(method, path, body, &headers)
    }

    /// Asks for something with these headers.
    pub(crate) fn ask_with(
        &self,
        method: &str,
        path: &str,
        body: Option<&str>,
        headers: &[(&str, &str)],
    ) -> Answer {
        let agent: ureq::Agent = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(Duration::from_secs(60)))
            .build()
            .into();
        let mut request = ureq::http::Request::builder()
            .method(method)
            .uri(self.url(path));
        if body.is_some() {
            request = request.header("content-type", "application/json");
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(body.unwrap_or_default().to_owned()).unwrap();
        let mut response = agent.run(request).unwrap();
        let headers = response.headers().iter();
        let headers = headers
            .map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()))
            .collect();
        Answer {
            status: response.status().as_u16(),
            headers,
            text: response.body_mut().read_to_string().unwrap(),
        }
    }

    /// Starts an upgrade of `root` with these options; its id.
    #[track_caller]
    pub(crate) fn upgrade(&self, root: &str, options: &str) -> String {
        let body = format!("{{\"root\": {root:?}, \"options\": {options}}}");
        let answer = self.ask("POST", "/v1/upgrades", Some(&body)).expect(202);
        let id = answer.json()["id"].as_str().unwrap().to_owned();
        assert_eq!(
            answer.header("location"),
            Some(format!("/v1/upgrades/{id}").as_str())
        );
        id
    }

    /// What is known of a run.
    pub(crate) fn run(&self, id: &str) -> Value {
        self.ask("GET", &format!("/v1/upgrades/{id}"), None)
            .expect(200)
            .json()
    }

    /// Waits until a run is in a state.
    #[track_caller]
    pub(crate) fn wait_for(&self, id: &str, state: &str) -> Value {
        wait_for(state, || {
            let run = self.run(id);
            (run["state"] == state).then_some(run)
        })
    }

    /// The events of a run to their end, from behind the one that was last seen: their
    /// numbers, names and bodies.
    pub(crate) fn events(&self, id: &str, last: Option<u64>) -> Vec<(Option<u64>, Value)> {
        let mut headers = Vec::new();
        let (bearer, last) = (
            self.token.as_ref().map(|token| format!("Bearer {token}")),
            last.map(|last| last.to_string()),
        );
        headers.extend(
            bearer
                .iter()
                .map(|bearer| ("authorization", bearer.as_str())),
        );
        headers.extend(last.iter().map(|last| ("last-event-id", last.as_str())));
        let path = format!("/v1/upgrades/{id}/events");
        let answer = self.ask_with("GET", &path, None, &headers).expect(200);
        assert_eq!(answer.header("content-type"), Some("text/event-stream"));
        events_of(&answer.text)
    }

    /// A connection that has asked for the events of a run and reads nothing.
    pub(crate) fn stuck_follower(&self, id: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let token = self.token.as_deref().unwrap_or_default();
        let request = format!(
            "GET /v1/upgrades/{id}/events HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\n\r\n",
            self.address
        );
        stream.write_all(request.as_bytes()).unwrap();
        stream
    }

    /// A number of the metrics.
    #[track_caller]
    pub(crate) fn metric(&self, line: &str) -> i64 {
        let text = self.ask("GET", "/metrics", None).expect(200).text;
        let found = text
            .lines()
            .find_map(|found| found.strip_prefix(line)?.strip_prefix(' '));
        found
            .unwrap_or_else(|| panic!("no `{line}` in\n{text}"))
            .parse()
            .unwrap()
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, name: &str) {
        assert!(crate::common::fleet::signal(self.process.id(), name));
    }

    /// Waits for its end.
    pub(crate) fn end(mut self) -> ExitStatus {
        wait_for("the end of the service", || {
            self.process.try_wait().unwrap()
        })
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // Harmless after the end.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The events of a stream.
pub(crate) fn events_of(text: &str) -> Vec<(Option<u64>, Value)> {
    let blocks = text.split("\n\n").filter(|block| block.contains("data: "));
    let field = |block: &str, name: &str| -> Option<String> {
        let line = block.lines().find_map(|line| line.strip_prefix(name))?;
        Some(line.to_owned())
    };
    blocks
        .map(|block| {
            let id = field(block, "id: ").map(|id| id.parse().unwrap());
            let data: Value = serde_json::from_str(&field(block, "data: ").unwrap()).unwrap();
            assert_eq!(field(block, "event: ").as_deref(), data["event"].as_str());
            (id, data)
        })
        .collect()
}

/// Reads what is left of a connection, until it has nothing for a while.
pub(crate) fn drain(stream: &mut TcpStream) -> String {
    stream
        .set_read_timeout(Some(Duration::from_secs(2)))
        .unwrap();
    let (mut text, mut some) = (Vec::new(), [0; 4096]);
    while let Ok(n @ 1..) = stream.read(&mut some) {
        text.extend_from_slice(&some[..n]);
    }
    String::from_utf8_lossy(&text).into_owned()
}
