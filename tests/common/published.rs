//! A golden case before its pyramid is declared, and the config it was written with.

use std::fs;
use std::path::PathBuf;

use serde_json::{Map, Value};

use crate::common::binary::Zagg;
use crate::common::cases::{Case, MANIFEST};
use crate::common::stores::TestStore;

/// A published store with the config it was written with beside it.
pub(crate) struct Published {
    /// The golden case.
    pub(crate) case: Case,
    /// The store, its pyramid declared off.
    pub(crate) store: TestStore,
    /// The text of the config.
    pub(crate) config: String,
}

impl Published {
    /// A golden case as published.
    pub(crate) fn load(name: &str) -> Self {
        let case = Case::load(name);
        let config = String::from_utf8(case.file("config.yaml").to_vec()).unwrap();
        let published = Self {
            store: TestStore::of(&case.published()),
            case,
            config,
        };
        published.write_config();
        published
    }

    /// Where the config lies.
    pub(crate) fn config_path(&self) -> PathBuf {
        self.store.parent().join("config.yaml")
    }

    /// Writes the config to its file.
    pub(crate) fn write_config(&self) {
        fs::write(self.config_path(), &self.config).unwrap();
    }

    /// Replaces a part of the config that is there.
    pub(crate) fn edit_config(&mut self, from: &str, to: &str) {
        assert!(self.config.contains(from), "no `{from}` in the config");
        self.config = self.config.replace(from, to);
        self.write_config();
    }

    /// `declare ROOT --json --config FILE`.
    pub(crate) fn declare(&self) -> Zagg {
        self.command("declare")
    }

    /// A command with the root, `--json` and the config.
    pub(crate) fn command(&self, command: &str) -> Zagg {
        let zagg = Zagg::new(command).arg(self.store.root()).arg("--json");
        zagg.arg("--config").arg(self.config_path())
    }

    /// The schedule of the case, as it is typed.
    pub(crate) fn overviews(&self) -> String {
        let orders = self.facts()["overviews"].clone();
        let orders: Vec<String> = orders
            .as_array()
            .unwrap()
            .iter()
            .map(Value::to_string)
            .collect();
        orders.join(",")
    }

    /// `declare` with the schedule of the case.
    pub(crate) fn declare_as_published(&self) -> Zagg {
        self.declare().args(&["--overviews", &self.overviews()])
    }

    /// What the reference writer recorded of the case.
    pub(crate) fn facts(&self) -> Value {
        serde_json::from_slice(self.case.file("case.json")).unwrap()
    }

    /// The manifest as it stands.
    pub(crate) fn manifest(&self) -> Map<String, Value> {
        let manifest: Value = serde_json::from_slice(&self.store.read(MANIFEST)).unwrap();
        manifest.as_object().unwrap().clone()
    }
}
