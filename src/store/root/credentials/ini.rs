//! The files of the AWS command line: sections in brackets, `name = value` below them.

use std::collections::BTreeMap;

/// The settings of one section, names in lower case.
pub(super) type Section = BTreeMap<String, String>;

/// The sections of `text` by their names. A section that stands there twice is one, and a
/// setting that does is the later one.
///
/// A line that is indented deeper than the setting above it belongs to that setting, and no
/// setting used here has such lines, so they are passed over. What is no setting is, too:
/// the files are other programs', which read more from them than this one.
pub(super) fn parse(text: &str) -> BTreeMap<String, Section> {
    let mut sections = BTreeMap::new();
    let mut section: Option<&mut Section> = None;
    let mut indent = None;
    for line in text.trim_start_matches('\u{feff}').lines() {
        let content = line.trim();
        if content.is_empty() || content.starts_with(['#', ';']) {
            continue;
        }
        let depth = line.len() - line.trim_start().len();
        if indent.is_some_and(|indent| depth > indent) {
            continue;
        }
        if let Some(rest) = content.strip_prefix('[') {
            let name = rest.split(']').next().unwrap_or_default();
            section = Some(
                sections
                    .entry(spaced_once(name))
                    .or_insert_with(Section::new),
            );
            indent = None;
        } else if let (Some(section), Some((name, value))) =
            (section.as_deref_mut(), content.split_once('='))
        {
            let value = without_comment(value.trim());
            section.insert(name.trim().to_ascii_lowercase(), value.to_owned());
            indent = Some(depth);
        }
    }
    sections
}

/// `profile  "my name"` as `profile my name`.
fn spaced_once(name: &str) -> String {
    let bare = name.replace(['"', '\''], "");
    bare.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A comment after a value begins with a space: `#` alone may be part of a secret.
fn without_comment(value: &str) -> &str {
    let comment = [" #", " ;", "\t#", "\t;"]
        .iter()
        .filter_map(|mark| value.find(mark))
        .min();
    comment.map_or(value, |at| value[..at].trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section<'a>(sections: &'a BTreeMap<String, Section>, name: &str) -> Vec<(&'a str, &'a str)> {
        let pairs = sections[name].iter();
        pairs
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect()
    }

    #[test]
    fn sections_settings_and_comments_are_told_apart() {
        let sections = parse(
            "\u{feff}stray = 1\r\n[default]\r\nAWS_Access_Key_Id=AKID # mine\r\n; no setting\r\n\
             aws_secret_access_key = a#b;c=d/+==\r\n\n[ profile  \"my own\" ] # said so\nregion=eu-west-1\n\
             nonsense\n[default]\nregion = us-west-2\t; later\naws_access_key_id = LATER\n",
        );
        assert_eq!(sections.len(), 2);
        assert_eq!(
            section(&sections, "default"),
            [
                ("aws_access_key_id", "LATER"),
                ("aws_secret_access_key", "a#b;c=d/+=="),
                ("region", "us-west-2"),
            ]
        );
        assert_eq!(
            section(&sections, "profile my own"),
            [("region", "eu-west-1")]
        );
    }

    #[test]
    fn settings_below_a_setting_are_not_the_profile_s() {
        let sections = parse(
            "[a]\n  region = r\n  s3 =\n    endpoint_url = http://not-this\n    max = 1\n  output = json\n[b]\nx=1\n",
        );
        assert_eq!(
            section(&sections, "a"),
            [("output", "json"), ("region", "r"), ("s3", "")]
        );
        assert_eq!(section(&sections, "b"), [("x", "1")]);
    }
}
