//! Opens a group: reads the metadata of its declared arrays, holds them against the
//! manifest, and reads each shard's index once.

use bytes::Bytes;
use futures::future::{join3, try_join_all};
use serde_json::{Map, Value};

use super::{FieldArrays, GroupArray};
use crate::pyramid::Field;
use crate::store::layout::{ArrayLayout, Tile};
use crate::store::leaf_check::{Role, check_array};
use crate::store::leaf_error::{LeafError, LeafProblem};
use crate::store::root::present;
use crate::store::template::MORTON;
use crate::store::{METADATA, Root, json};

/// Opens the arrays of one group.
pub(super) struct Opener<'a> {
    pub(super) root: &'a Root,
    pub(super) artifact: String,
    pub(super) order: u8,
    pub(super) group: String,
    pub(super) n_cells: u64,
}

impl Opener<'_> {
    pub(super) async fn group_attributes(&self) -> Result<Map<String, Value>, LeafError> {
        let bytes = self
            .read_document(&self.group, None)
            .await?
            .ok_or_else(|| {
                let group = self.order.to_string();
                LeafError::of_leaf(&self.artifact, LeafProblem::NoCellGroup(group))
            })?;
        let document: Value = json::parse(&bytes).map_err(|error| {
            LeafError::of_leaf(&self.artifact, LeafProblem::Metadata(error.to_string()))
        })?;
        match document.get("attributes") {
            Some(Value::Object(attributes)) => Ok(attributes.clone()),
            _ => Ok(Map::new()),
        }
    }

    /// Whether the group stores its words, of which only their number matters: they
    /// are a function of the node's id.
    pub(super) async fn morton(&self) -> Result<bool, LeafError> {
        let document = self
            .read_document(&format!("{}/{MORTON}", self.group), Some(MORTON))
            .await?;
        document
            .map(|bytes| self.layout(MORTON, &bytes))
            .transpose()
            .map(|layout| layout.is_some())
    }

    pub(super) async fn field(&self, field: &Field) -> Result<FieldArrays, LeafError> {
        let (located, temporal) = field.channels();
        let (payload, locations, times) = join3(
            self.array(&field.name, Role::Payload(field)),
            self.companion(field, located, field.locations_name(), Role::Locations),
            self.companion(field, temporal, field.times_name(), Role::Times),
        )
        .await;
        // Without a payload the companions say nothing, not even that they are wrong.
        let Some(payload) = payload? else {
            tracing::warn!(
                artifact = self.artifact,
                array = field.name,
                "declared array absent, its cells fold as missing"
            );
            return Ok(FieldArrays::default());
        };
        Ok(FieldArrays {
            payload: Some(payload),
            locations: locations?,
            times: times?,
        })
    }

    /// An array beside the payload of a field; `None` when none is declared.
    async fn companion(
        &self,
        field: &Field,
        is_declared: bool,
        companion: String,
        role: Role<'_>,
    ) -> Result<Option<GroupArray>, LeafError> {
        if !is_declared {
            return Ok(None);
        }
        match self.array(&companion, role).await? {
            Some(array) => Ok(Some(array)),
            None => Err(LeafError::of_array(
                &self.artifact,
                &field.name,
                LeafProblem::CompanionAbsent { companion },
            )),
        }
    }

    pub(super) async fn array(
        &self,
        name: &str,
        role: Role<'_>,
    ) -> Result<Option<GroupArray>, LeafError> {
        let path = format!("{}/{name}", self.group);
        let Some(document) = self.read_document(&path, Some(name)).await? else {
            return Ok(None);
        };
        let layout = self.layout(name, &document)?;
        check_array(&layout, role)
            .map_err(|problem| LeafError::of_array(&self.artifact, name, problem))?;
        let tiles = self.tiles(name, &path, &layout).await?;
        Ok(Some(GroupArray {
            name: name.to_owned(),
            layout,
            tiles,
        }))
    }

    fn layout(&self, name: &str, document: &[u8]) -> Result<ArrayLayout, LeafError> {
        ArrayLayout::parse(document, self.n_cells)
            .map_err(|problem| LeafError::of_array(&self.artifact, name, problem))
    }

    /// The `zarr.json` of a node, which is an array when it has a name; `None` when the
    /// node does not exist.
    async fn read_document(
        &self,
        node: &str,
        array: Option<&str>,
    ) -> Result<Option<Bytes>, LeafError> {
        let failed = |problem: LeafProblem| LeafError {
            leaf: self.artifact.clone(),
            array: array.map(str::to_owned),
            problem: Box::new(problem),
        };
        let read = |file: &str| {
            let key = format!("{node}/{file}");
            async move {
                let found = self.root.get_if_present(&key).await;
                found.map_err(|error| failed(error.into()))
            }
        };
        if let Some(bytes) = read(METADATA).await? {
            return Ok(Some(bytes));
        }
        for v2 in [".zarray", ".zgroup"] {
            if read(v2).await?.is_some() {
                return Err(failed(LeafProblem::ZarrV2(v2)));
            }
        }
        Ok(None)
    }

    async fn tiles(
        &self,
        name: &str,
        path: &str,
        layout: &ArrayLayout,
    ) -> Result<Vec<Tile>, LeafError> {
        let objects: Vec<String> = layout
            .objects()
            .map(|key| format!("{path}/{key}"))
            .collect();
        let Some(index_bytes) = layout.index_bytes() else {
            return Ok((0u64..)
                .zip(&objects)
                .map(|(i, object)| layout.chunk_tile(i, object))
                .collect());
        };
        let indexes = objects.iter().map(|object| async {
            present(if layout.index_at_end() {
                self.root.get_suffix(object, index_bytes).await
            } else {
                self.root.get_prefix(object, index_bytes).await
            })
        });
        let indexes = try_join_all(indexes)
            .await
            .map_err(|error| LeafError::of_array(&self.artifact, name, error))?;
        let mut tiles = Vec::new();
        for (i, (object, index)) in (0u64..).zip(objects.iter().zip(indexes)) {
            let Some((index, object_size)) = index else {
                continue;
            };
            let shard = layout
                .shard_tiles(i, object, &index, object_size)
                .map_err(|problem| LeafError::of_array(&self.artifact, name, problem))?;
            tiles.extend(shard);
        }
        Ok(tiles)
    }
}
