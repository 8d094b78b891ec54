//! From events to a value: anchors, merges, duplicate keys.

use std::borrow::Cow;
use std::collections::HashMap;

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Span, StrInput};

use super::scalar::Tag;
use super::{Yaml, YamlError};

/// Nodes that aliases may add to a document, against those that multiply without end.
const MAX_COPIED_NODES: usize = 1 << 20;

/// Levels of nesting, each of which is one call deep.
const MAX_DEPTH: usize = 128;

/// Prefix of the tags that `!!` stands for.
const NAMESPACE: &str = "tag:yaml.org,2002:";

/// Reads a text that holds at most one document; none reads as null.
///
/// # Errors
/// Where PyYAML's `safe_load` fails, with the line: a text that is not YAML, several
/// documents, an unknown tag, an alias to nothing, a key that is no scalar.
pub(crate) fn parse(text: &str) -> Result<Yaml, YamlError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut loader = Loader {
        parser: Parser::new_from_str(text),
        anchors: HashMap::new(),
        copied_nodes: 0,
        depth: 0,
    };
    let mut document = None;
    loop {
        let (event, line) = loader.next()?;
        match event {
            Event::StreamEnd => return Ok(document.unwrap_or(Yaml::Null)),
            Event::StreamStart | Event::DocumentEnd | Event::Nothing => {}
            Event::DocumentStart(_) if document.is_some() => {
                return Err(fault(line, "a second document begins"));
            }
            Event::DocumentStart(_) => {
                let first = loader.next()?;
                document = Some(loader.value(first)?);
            }
            _ => return Err(fault(line, "a value outside a document")),
        }
    }
}

fn fault(line: usize, problem: impl Into<String>) -> YamlError {
    YamlError {
        line,
        problem: problem.into(),
    }
}

struct Loader<'a> {
    parser: Parser<'a, StrInput<'a>>,
    anchors: HashMap<usize, Yaml>,
    copied_nodes: usize,
    depth: usize,
}

/// A key as it stands.
enum Key {
    Merge,
    Own(Yaml),
}

type Located<'a> = (Event<'a>, usize);
type ParserTag<'a> = Option<Cow<'a, saphyr_parser::Tag>>;

impl<'a> Loader<'a> {
    fn next(&mut self) -> Result<Located<'a>, YamlError> {
        let next: Option<Result<(Event<'a>, Span), ScanError>> = self.parser.next_event();
        match next {
            Some(Ok((event, span))) => Ok((event, span.start.line())),
            Some(Err(error)) => Err(fault(error.marker().line(), error.info())),
            None => Ok((Event::StreamEnd, 0)),
        }
    }

    fn value(&mut self, (event, line): Located<'a>) -> Result<Yaml, YamlError> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let value = scalar_tag(&text, style, tag.as_deref())
                    .and_then(|tag| tag.value(&text))
                    .map_err(|problem| fault(line, problem))?;
                Ok(self.anchored(anchor, value))
            }
            Event::Alias(anchor) => self.alias(anchor, line),
            Event::SequenceStart(anchor, tag) => {
                check_collection_tag(&tag, "seq", line)?;
                let list = self.nested(line, Self::list)?;
                Ok(self.anchored(anchor, list))
            }
            Event::MappingStart(anchor, tag) => {
                check_collection_tag(&tag, "map", line)?;
                let map = self.nested(line, Self::map)?;
                Ok(self.anchored(anchor, map))
            }
            _ => Err(fault(line, "a value is due here")),
        }
    }

    fn nested(
        &mut self,
        line: usize,
        read: impl FnOnce(&mut Self) -> Result<Yaml, YamlError>,
    ) -> Result<Yaml, YamlError> {
        if self.depth == MAX_DEPTH {
            return Err(fault(
                line,
                format!("nested deeper than {MAX_DEPTH} levels"),
            ));
        }
        self.depth += 1;
        let value = read(self);
        self.depth -= 1;
        value
    }

    fn anchored(&mut self, anchor: usize, value: Yaml) -> Yaml {
        if anchor > 0 {
            self.anchors.insert(anchor, value.clone());
        }
        value
    }

    fn alias(&mut self, anchor: usize, line: usize) -> Result<Yaml, YamlError> {
        // A collection is known only when it is complete, so none holds itself.
        let Some(value) = self.anchors.get(&anchor) else {
            return Err(fault(line, "an alias to nothing, or to what it is part of"));
        };
        self.copied_nodes = self.copied_nodes.saturating_add(num_nodes(value));
        if self.copied_nodes > MAX_COPIED_NODES {
            return Err(fault(line, "aliases make this document too large"));
        }
        Ok(value.clone())
    }

    fn list(&mut self) -> Result<Yaml, YamlError> {
        let mut items = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd, _) => return Ok(Yaml::List(items)),
                item => items.push(self.value(item)?),
            }
        }
    }

    fn map(&mut self) -> Result<Yaml, YamlError> {
        let (mut merged, mut own) = (Vec::new(), Vec::new());
        loop {
            let (event, line) = self.next()?;
            if event == Event::MappingEnd {
                break;
            }
            let key = self.key((event, line))?;
            let value = self.next()?;
            let value = self.value(value)?;
            match key {
                Key::Own(key) => own.push((key, value)),
                Key::Merge => merged.extend(merged_pairs(value, line)?),
            }
        }
        let mut map: Vec<(Yaml, Yaml)> = Vec::with_capacity(merged.len() + own.len());
        for (key, value) in merged.into_iter().chain(own) {
            match map.iter_mut().find(|(known, _)| is_same_key(known, &key)) {
                Some((_, known)) => *known = value,
                None => map.push((key, value)),
            }
        }
        Ok(Yaml::Map(map))
    }

    fn key(&mut self, (event, line): Located<'a>) -> Result<Key, YamlError> {
        if let Event::Scalar(text, style, anchor, tag) = &event {
            let found = scalar_tag(text, *style, tag.as_deref());
            match found.map_err(|problem| fault(line, problem))? {
                Tag::Merge => return Ok(Key::Merge),
                Tag::Default => {
                    let text = Yaml::Text(text.clone().into_owned());
                    return Ok(Key::Own(self.anchored(*anchor, text)));
                }
                _ => {}
            }
        }
        match self.value((event, line))? {
            Yaml::List(_) | Yaml::Map(_) => Err(fault(line, "a key that is a list or a mapping")),
            key => Ok(Key::Own(key)),
        }
    }
}

/// The pairs of what stands under `<<`: a mapping, or a list of them, the first of which
/// wins.
fn merged_pairs(value: Yaml, line: usize) -> Result<Vec<(Yaml, Yaml)>, YamlError> {
    let not_a_map = || fault(line, "`<<` takes a mapping or a list of mappings");
    match value {
        Yaml::Map(pairs) => Ok(pairs),
        Yaml::List(items) => {
            let mut pairs = Vec::new();
            for item in items.into_iter().rev() {
                match item {
                    Yaml::Map(of_item) => pairs.extend(of_item),
                    _ => return Err(not_a_map()),
                }
            }
            Ok(pairs)
        }
        _ => Err(not_a_map()),
    }
}

/// Whether two keys are one: Python's `True` and `False` are 1 and 0.
fn is_same_key(one: &Yaml, other: &Yaml) -> bool {
    match (one, other) {
        (Yaml::Bool(bool), Yaml::Int(int)) | (Yaml::Int(int), Yaml::Bool(bool)) => {
            i128::from(*bool) == *int
        }
        _ => one == other,
    }
}

/// The type of a scalar: that of its tag, that of its look when it is plain, else text.
fn scalar_tag(
    text: &str,
    style: ScalarStyle,
    tag: Option<&saphyr_parser::Tag>,
) -> Result<Tag, String> {
    match tag.map(full_name) {
        None if style != ScalarStyle::Plain => Ok(Tag::Text),
        None => Ok(Tag::of_plain(text)),
        Some(name) if name == "!" => Ok(Tag::of_plain(text)),
        Some(name) => name
            .strip_prefix(NAMESPACE)
            .and_then(Tag::named)
            .ok_or_else(|| format!("the tag `{name}` is not known here")),
    }
}

fn check_collection_tag(tag: &ParserTag<'_>, due: &str, line: usize) -> Result<(), YamlError> {
    match tag.as_deref().map(full_name) {
        Some(name) if name != "!" && name != format!("{NAMESPACE}{due}") => {
            Err(fault(line, format!("the tag `{name}` is not known here")))
        }
        _ => Ok(()),
    }
}

fn full_name(tag: &saphyr_parser::Tag) -> String {
    format!("{}{}", tag.handle, tag.suffix)
}

fn num_nodes(value: &Yaml) -> usize {
    1 + match value {
        Yaml::List(items) => items.iter().map(num_nodes).sum(),
        Yaml::Map(entries) => entries.iter().map(|(_, value)| 1 + num_nodes(value)).sum(),
        _ => 0,
    }
}
