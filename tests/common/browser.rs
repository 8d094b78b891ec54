//! A headless Chromium, driven as any program drives one: by the WebDriver protocol.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::common::fleet::wait_for;

/// What to type when there is none.
const INSTALL: &str = "the test of the page needs a browser: apt-get install -y --no-install-recommends chromium chromium-driver";

/// Without these Chromium looks for hosts of its maker, and for a sandbox that root has not.
const FLAGS: [&str; 9] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
];

/// By which WebDriver names an element.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// A browser with one page; ended when dropped.
pub(crate) struct Browser {
    driver: Child,
    session: String,
    _profile: TempDir,
}

impl Browser {
    /// Starts a browser.
    pub(crate) fn start() -> Self {
        let profile = TempDir::with_prefix("zagg-stream-browser-").unwrap();
        let mut driver = Command::new("chromedriver")
            .arg("--port=0")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect(INSTALL);
        // `ChromeDriver was started successfully on port 41234.`
        let mut lines = BufReader::new(driver.stdout.take().unwrap()).lines();
        let port = lines.by_ref().map(Result::unwrap).find_map(|line| {
            let (_, port) = line.split_once("successfully on port ")?;
            Some(port.trim_end_matches('.').to_owned())
        });
        let base = format!("http://127.0.0.1:{}/session", port.expect(INSTALL));
        // Whoever writes to a pipe that nobody reads may wait for ever.
        std::thread::spawn(move || lines.for_each(drop));
        let data = format!("--user-data-dir={}", profile.path().display());
        let flags: Vec<&str> = FLAGS.into_iter().chain([data.as_str()]).collect();
        let wanted = json!({"capabilities": {"alwaysMatch": {
            "browserName": "chrome",
            "goog:chromeOptions": {"args": flags},
        }}});
        let made = request("POST", &base, Some(&wanted));
        let id = made["sessionId"]
            .as_str()
            .unwrap_or_else(|| panic!("{made}"));
        Self {
            driver,
            session: format!("{base}/{id}"),
            _profile: profile,
        }
    }

    fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> Value {
        request(method, &format!("{}{path}", self.session), body)
    }

    /// Opens a page.
    pub(crate) fn open(&self, url: &str) {
        self.ask("POST", "/url", Some(&json!({"url": url})));
    }

    fn element(&self, css: &str) -> String {
        let find = json!({"using": "css selector", "value": css});
        wait_for(css, || {
            let found = self.ask("POST", "/element", Some(&find));
            Some(found.get(ELEMENT)?.as_str()?.to_owned())
        })
    }

    /// Clicks at what is found by these selectors.
    pub(crate) fn click(&self, css: &str) {
        let element = self.element(css);
        self.ask(
            "POST",
            &format!("/element/{element}/click"),
            Some(&json!({})),
        );
    }

    /// Types into what is found.
    pub(crate) fn type_into(&self, css: &str, text: &str) {
        let element = self.element(css);
        let typed = json!({"text": text});
        self.ask("POST", &format!("/element/{element}/value"), Some(&typed));
    }

    /// What is read there.
    pub(crate) fn text(&self, css: &str) -> String {
        let element = self.element(css);
        let text = self.ask("GET", &format!("/element/{element}/text"), None);
        text.as_str().unwrap_or_default().to_owned()
    }

    /// Whether it is to be seen.
    pub(crate) fn is_shown(&self, css: &str) -> bool {
        let element = self.element(css);
        self.ask("GET", &format!("/element/{element}/displayed"), None) == true
    }

    /// What an expression of the page's language comes to.
    pub(crate) fn evaluate(&self, expression: &str) -> Value {
        let script = json!({"script": format!("return {expression}"), "args": []});
        self.ask("POST", "/execute/sync", Some(&script))
    }

    /// Waits until what is read there is as it should be; what it then is.
    #[track_caller]
    pub(crate) fn wait(&self, css: &str, holds: impl Fn(&str) -> bool) -> String {
        wait_for(css, || Some(self.text(css)).filter(|text| holds(text)))
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        self.ask("DELETE", "", None);
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

/// One request; the `value` of its answer.
fn request(method: &str, url: &str, body: Option<&Value>) -> Value {
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .timeout_global(Some(Duration::from_secs(60)))
        .build()
        .into();
    let request = ureq::http::Request::builder().method(method).uri(url);
    let request = request.header("content-type", "application/json");
    let body = body.map_or(String::new(), Value::to_string);
    let mut response = agent.run(request.body(body).unwrap()).unwrap();
    let text = response.body_mut().read_to_string().unwrap();
    let answer: Value = serde_json::from_str(&text).unwrap();
    answer["value"].clone()
}
