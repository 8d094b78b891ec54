//! What PyYAML 6 reads, document by document.

use super::{Yaml, parse};
use crate::store::json::python_float;

/// A document and what `yaml.safe_load` makes of it, or that it fails. One difference is
/// known: a tab before the first key, which PyYAML refuses and the parser takes for space.
const READ_BY_PYYAML: &[(&str, &str)] = &[
    ("~", "null"),
    ("null", "null"),
    ("Null", "null"),
    ("NULL", "null"),
    ("nUll", "str nUll"),
    ("yes", "bool True"),
    ("Yes", "bool True"),
    ("YES", "bool True"),
    ("yES", "str yES"),
    ("no", "bool False"),
    ("No", "bool False"),
    ("on", "bool True"),
    ("On", "bool True"),
    ("ON", "bool True"),
    ("off", "bool False"),
    ("OFF", "bool False"),
    ("true", "bool True"),
    ("True", "bool True"),
    ("TRUE", "bool True"),
    ("tRUE", "str tRUE"),
    ("false", "bool False"),
    ("False", "bool False"),
    ("y", "str y"),
    ("n", "str n"),
    ("Y", "str Y"),
    ("N", "str N"),
    ("0", "int 0"),
    ("-0", "int 0"),
    ("+1", "int 1"),
    ("1_000", "int 1000"),
    ("010", "int 8"),
    ("-017", "int -15"),
    ("08", "str 08"),
    ("0o17", "str 0o17"),
    ("0b101", "int 5"),
    ("0b1_0", "int 2"),
    ("-0b1", "int -1"),
    ("0x1F", "int 31"),
    ("-0xff", "int -255"),
    ("0X1F", "str 0X1F"),
    ("0_", "int 0"),
    ("1_", "int 1"),
    ("_1", "str _1"),
    ("1__2", "int 12"),
    ("1:30", "int 90"),
    ("-1:30:05", "int -5405"),
    ("1:60", "str 1:60"),
    ("01:30", "str 01:30"),
    ("190:20:30", "int 685230"),
    ("12345678901234567890", "int 12345678901234567890"),
    ("1e3", "str 1e3"),
    ("1.0e3", "str 1.0e3"),
    ("1.0e+3", "float 1000.0"),
    ("1e+3", "str 1e+3"),
    ("1.5E-3", "float 0.0015"),
    ("1.", "float 1.0"),
    (".5", "float 0.5"),
    ("-.5", "str -.5"),
    ("+.5", "str +.5"),
    ("1.5", "float 1.5"),
    ("-1.5", "float -1.5"),
    ("1_0.5", "float 10.5"),
    ("1._5", "float 1.5"),
    ("._5", "str ._5"),
    (".inf", "float inf"),
    ("-.inf", "float -inf"),
    ("+.Inf", "float inf"),
    (".INF", "float inf"),
    (".nan", "float nan"),
    (".NaN", "float nan"),
    (".NAN", "float nan"),
    ("-.nan", "str -.nan"),
    ("NaN", "str NaN"),
    ("nan", "str nan"),
    ("inf", "str inf"),
    ("1:30.5", "float 90.5"),
    ("-1:30.5", "float -90.5"),
    ("1:30.5e+3", "str 1:30.5e+3"),
    ("0.1", "float 0.1"),
    ("1.0e+400", "float inf"),
    ("-9999.0", "float -9999.0"),
    ("685.230_15e+03", "float 685230.15"),
    ("6.8523015e+5", "float 685230.15"),
    ("2018-01-01", "time 2018-01-01"),
    ("2018-1-1", "str 2018-1-1"),
    ("2018-01-01T00:00:00Z", "time 2018-01-01T00:00:00+00:00"),
    ("2018-01-01T00:00:00", "time 2018-01-01T00:00:00"),
    (
        "2018-01-01T00:00:00+02:00",
        "time 2018-01-01T00:00:00+02:00",
    ),
    ("2018-1-1T0:00:00", "time 2018-01-01T00:00:00"),
    ("2018-01-01T00:00:00.5", "time 2018-01-01T00:00:00.500000"),
    (
        "2018-01-01T00:00:00.1234567Z",
        "time 2018-01-01T00:00:00.123456+00:00",
    ),
    ("2018-01-01T00:00:00-5", "time 2018-01-01T00:00:00-05:00"),
    ("2018-13-01", "error"),
    ("2018-01-01T25:00:00Z", "error"),
    ("18-01-01", "str 18-01-01"),
    ("2018-01", "str 2018-01"),
    (
        "2018-01-01t10:00:00-05:30",
        "time 2018-01-01T10:00:00-05:30",
    ),
    ("'yes'", "str yes"),
    ("\"12\"", "str 12"),
    ("\"1.5\"", "str 1.5"),
    ("=", "error"),
    ("<<", "error"),
    ("abc", "str abc"),
    ("a:b", "str a:b"),
    ("/{group}/x", "str /{group}/x"),
    ("np.max", "str np.max"),
    ("1.2.3", "str 1.2.3"),
    ("-", "[null]"),
    ("--", "str --"),
    ("+", "str +"),
    ("0b", "str 0b"),
    ("0x", "str 0x"),
    ("0b_", "error"),
    ("0..", "str 0.."),
    ("1.e+3", "float 1000.0"),
    ("!!str_", "error"),
    ("", "null"),
    ("# only a comment\n", "null"),
    ("---\n...\n", "null"),
    ("2018-01-01 00:00:00", "time 2018-01-01T00:00:00"),
    ("2018-01-01  00:00:00 Z", "time 2018-01-01T00:00:00+00:00"),
    (
        "2018-01-01 00:00:00 +1:30",
        "time 2018-01-01T00:00:00+01:30",
    ),
    ("a: 1\nb: 2\na: 3\n", "{str a: int 3, str b: int 2}"),
    ("{a: 1, a: 2}", "{str a: int 2}"),
    ("[1, [2, x], {}]", "[int 1, [int 2, str x], {}]"),
    ("- a\n-\n- ~\n", "[str a, null, null]"),
    (
        "a:\n- 1\n- 2\nb: []\n",
        "{str a: [int 1, int 2], str b: []}",
    ),
    (
        "base: &b {x: 1, y: 2}\nd:\n  z: 0\n  <<: *b\n  y: 9\n",
        "{str base: {str x: int 1, str y: int 2}, str d: {str x: int 1, str y: int 9, str z: int 0}}",
    ),
    (
        "l: [&p {x: 1}, &q {x: 2, y: 3}]\nm: {<<: [*p, *q], w: 0}\n",
        "{str l: [{str x: int 1}, {str x: int 2, str y: int 3}], str m: {str x: int 1, str y: int 3, str w: int 0}}",
    ),
    ("<<: 3\n", "error"),
    ("a: *nope\n", "error"),
    ("a: 1\n---\nb: 2\n", "error"),
    ("a: !foo 1\n", "error"),
    ("? [1, 2]\n: 3\n", "error"),
    (
        "{1: a, yes: b, ~: c, 1.5: d, 2018-01-01: e}",
        "{int 1: str b, null: str c, float 1.5: str d, time 2018-01-01: str e}",
    ),
    (
        "a: !!str 12\nb: !!int '3'\nc: !!float 3\nd: !!bool yes\ne: !!null x\n",
        "{str a: str 12, str b: int 3, str c: float 3.0, str d: bool True, str e: null}",
    ),
    ("a: !!int x\n", "error"),
    ("a: ! 12\n", "{str a: int 12}"),
    ("a: !!set {x}\n", "error"),
    ("a: !!timestamp 2018-1-1\n", "{str a: time 2018-01-01}"),
    (
        "a: |\n  one\n  two\nb: >-\n  one\n  two\n",
        "{str a: str one\ntwo\n, str b: str one two}",
    ),
    (
        "a: 'it''s'\nb: \"tab\\t\\u00e9\"\n",
        "{str a: str it's, str b: str tab\té}",
    ),
    ("a: &x 1\nb: *x\n", "{str a: int 1, str b: int 1}"),
    ("a: b: c\n", "error"),
    ("a: [1, 2\n", "error"),
    ("=: 1\n", "{str =: int 1}"),
    ("a: =\n", "error"),
    ("a: <<\n", "error"),
    (
        "key with space: v # c\n'k': w\n",
        "{str key with space: str v, str k: str w}",
    ),
    (
        "a: {b: 1,\n    c: no}\n",
        "{str a: {str b: int 1, str c: bool False}}",
    ),
    ("a: 1\n b: 2\n", "error"),
    ("é: ü\n", "{str é: str ü}"),
    (
        "a:\n  - b: 1\n    c: 2\n  - d\n",
        "{str a: [{str b: int 1, str c: int 2}, str d]}",
    ),
    ("x: &a [*a]\n", "error"),
    ("a: !<tag:yaml.org,2002:str> 12\n", "{str a: str 12}"),
    ("a: \"x\n  y\"\n", "{str a: str x y}"),
    ("%YAML 1.1\n---\na: on\n", "{str a: bool True}"),
];

fn shown(value: &Yaml) -> String {
    let joined = |items: Vec<String>| items.join(", ");
    match value {
        Yaml::Null => "null".to_owned(),
        Yaml::Bool(true) => "bool True".to_owned(),
        Yaml::Bool(false) => "bool False".to_owned(),
        Yaml::Int(int) => format!("int {int}"),
        Yaml::Float(float) if float.is_nan() => "float nan".to_owned(),
        Yaml::Float(float) if float.is_infinite() => format!("float {float}"),
        Yaml::Float(float) => format!("float {}", python_float(*float)),
        Yaml::Text(text) => format!("str {text}"),
        Yaml::Time(time) => format!("time {time}"),
        Yaml::List(items) => format!("[{}]", joined(items.iter().map(shown).collect())),
        Yaml::Map(entries) => {
            let pair = |(key, value): &(Yaml, Yaml)| format!("{}: {}", shown(key), shown(value));
            format!("{{{}}}", joined(entries.iter().map(pair).collect()))
        }
    }
}

#[test]
fn documents_are_read_as_pyyaml_reads_them() {
    let mut wrong = Vec::new();
    for (document, due) in READ_BY_PYYAML {
        let found = match parse(document) {
            Ok(value) => shown(&value),
            Err(_) => "error".to_owned(),
        };
        if found != *due {
            wrong.push(format!("{document:?} reads as {found:?}, not {due:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn an_error_names_its_line() {
    let line = |text: &str| parse(text).unwrap_err().line;
    assert_eq!(line("a: 1\nb: [1, 2\nc: 3\n"), 3);
    assert_eq!(line("a: 1\nb: *nope\n"), 2);
    assert_eq!(line("a: 1\nb:\n  c: !foo 1\n"), 3);
    assert_eq!(line("a: 1\n---\nb: 2\n"), 2);
}

#[test]
fn a_document_that_would_grow_without_end_is_refused() {
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for i in 1..12 {
        let of = format!("*a{}, ", i - 1).repeat(10);
        bomb.push_str(&format!("a{i}: &a{i} [{of}]\n"));
    }
    assert!(parse(&bomb).unwrap_err().problem.contains("too large"));
    assert!(parse(&"[".repeat(100_000)).is_err());
}
