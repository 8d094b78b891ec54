//! What a store said, in one line that may be shown.
//!
//! The client library's text is the body as it came, over many lines, and S3 puts into the
//! body of a refused signature the request it was made over, session token and all. So of
//! a body only what explains it is taken.

use std::error::Error as StdError;

use object_store::Error;

/// How object_store begins the text of an answer with a status of its own.
pub(super) const STATUS: &str = "Server returned non-2xx status code: ";

/// How it begins the text of a success whose body is an error.
pub(super) const FAULT_IN_SUCCESS: &str = "Server returned error response: ";

/// How it begins the text of a request that failed.
const REQUEST: &str = "Error performing ";

/// The most characters shown of a body that is neither XML nor JSON.
const MAX_SHOWN: usize = 200;

/// Elements of a body that say more about the code and are no secret.
const DETAILS: [(&str, &str); 6] = [
    ("AuthenticationErrorDetail", ""),
    ("Details", ""),
    ("Region", "region "),
    ("Endpoint", "endpoint "),
    ("RequestTime", "time of the request "),
    ("ServerTime", "time of the store "),
];

/// What a server answered, as far as it can be told.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Answer {
    /// `403 Forbidden`; empty for a success whose body is an error.
    pub(super) status: String,
    /// The store's name for it, `AccessDenied`.
    pub(super) code: Option<String>,
    /// Its sentence, and details.
    pub(super) says: Vec<String>,
    /// Scheme and host it was asked of, when that may be shown.
    pub(super) server: Option<String>,
}

impl Answer {
    /// The answer that `error` is about, if a server gave one.
    pub(super) fn of(error: &Error) -> Option<Self> {
        let texts = chain(error);
        let (status, body) = texts.iter().find_map(|text| {
            let answer = text.strip_prefix(STATUS).map(|text| {
                // `403 Forbidden: body`
                text.split_once(": ").unwrap_or((text, ""))
            });
            answer.or_else(|| Some(("", text.strip_prefix(FAULT_IN_SUCCESS)?)))
        })?;
        let mut answer = Self {
            status: status.trim_end_matches(':').to_owned(),
            server: texts.iter().find_map(|text| server(text)),
            ..Self::default()
        };
        // Azure's begins with a mark of its byte order.
        let body = body.trim_start_matches('\u{feff}').trim();
        if body.starts_with('<') {
            answer.take_xml(body);
        } else if !answer.take_json(body) && !body.is_empty() {
            let line = body.lines().next().unwrap_or_default();
            answer.says.push(line.chars().take(MAX_SHOWN).collect());
        }
        Some(answer)
    }

    /// Whether the store's name for it is this.
    pub(super) fn is(&self, code: &str) -> bool {
        self.code.as_deref() == Some(code)
    }

    fn take_xml(&mut self, body: &str) {
        self.code = element(body, "Code");
        // Azure goes on with the number of the request, on lines of their own.
        let sentence = element(body, "Message").or_else(|| element(body, "title"));
        let sentence = sentence.and_then(|text| text.lines().next().map(str::to_owned));
        self.says.extend(sentence.filter(|text| !text.is_empty()));
        for (name, prefix) in DETAILS {
            self.says
                .extend(element(body, name).map(|text| format!("{prefix}{text}")));
        }
    }

    /// `{"error": {"message": …}}`, `{"error": …, "error_description": …}` or
    /// `{"code": …, "message": …}`.
    fn take_json(&mut self, body: &str) -> bool {
        let Ok(body) = serde_json::from_str::<serde_json::Value>(body) else {
            return false;
        };
        let text = |value: &serde_json::Value| value.as_str().map(str::to_owned);
        let inner = if body["error"].is_object() {
            &body["error"]
        } else {
            &body
        };
        self.code = ["error", "status", "code"]
            .iter()
            .find_map(|name| text(&inner[*name]));
        self.says.extend(
            ["message", "error_description"]
                .iter()
                .find_map(|name| text(&inner[*name]))
                .and_then(|text| text.lines().next().map(str::to_owned)),
        );
        true
    }
}

impl std::fmt::Display for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.server.as_deref().unwrap_or("the store"))?;
        f.write_str(" answered")?;
        if !self.status.is_empty() {
            write!(f, " {}", self.status)?;
        }
        let said = self.code.iter().chain(&self.says);
        for (n, text) in said.enumerate() {
            // The sentence may end in a stop, and this one goes on.
            let text = text.trim().trim_end_matches('.');
            write!(f, "{}{text}", if n == 0 { ": " } else { ", " })?;
        }
        Ok(())
    }
}

/// `error` in one line.
pub(in crate::store::root) fn told(error: &Error) -> String {
    if let Some(answer) = Answer::of(error) {
        return answer.to_string();
    }
    // What broke a connection stands at the end of the chain only.
    let texts = chain(error);
    let mut told = texts.first().cloned().unwrap_or_default();
    if let Some(last) = texts.last().filter(|last| !told.contains(last.as_str())) {
        told = format!("{told}: {last}");
    }
    told.lines().map(str::trim).collect::<Vec<_>>().join(" ")
}

/// The texts of `error` and of everything behind it.
fn chain(error: &Error) -> Vec<String> {
    let mut texts = Vec::new();
    let mut next: Option<&(dyn StdError + 'static)> = Some(error);
    while let Some(error) = next {
        texts.push(error.to_string());
        next = error.source();
    }
    texts
}

/// `https://host:port` out of `Error performing GET https://host:port/… in …`.
fn server(text: &str) -> Option<String> {
    let request = text.strip_prefix(REQUEST)?;
    let url = url::Url::parse(request.split(' ').nth(1)?).ok()?;
    // Of a listing another text stands before it, which has a word in that place.
    url.has_host()
        .then(|| url[..url::Position::BeforePath].to_owned())
}

/// The text of the first such element of `body`.
fn element(body: &str, name: &str) -> Option<String> {
    let (_, rest) = body.split_once(&format!("<{name}>"))?;
    let (text, _) = rest.split_once(&format!("</{name}>"))?;
    let plain = text
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"")
        .replace("&apos;", "'")
        .replace("&#39;", "'")
        .replace("&amp;", "&");
    Some(plain.trim().to_owned())
}
