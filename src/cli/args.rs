//! What can be typed.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};

use super::fleet::{FleetArgs, FleetCommand};
use super::progress::Mode;
#[cfg(feature = "serve")]
use super::serve::ServeArgs;
use super::shell::{CompletionsArgs, ManArgs};
use super::worker::WorkerArgs;
use crate::kernels::plan::FoldLaw;
use crate::settings::parse_size;

/// Upgrades a published morton-hive Zarr store to the /2 pyramid, in place, from its
/// own bytes.
#[derive(Debug, Parser)]
#[command(name = "zagg-stream", version, propagate_version = true)]
pub(super) struct Args {
    #[command(subcommand)]
    pub command: Command,
    #[command(flatten)]
    pub log: LogArgs,
}

#[derive(Debug, ClapArgs)]
pub(super) struct LogArgs {
    /// What to log on stderr: error, warn, info, debug, trace, or a filter such as
    /// `zagg_stream=debug`. RUST_LOG is used when this is not given.
    #[arg(long, global = true, value_name = "LEVEL")]
    pub log_level: Option<String>,
    /// How to show progress on stderr: a display on a terminal and a line every half minute
    /// elsewhere, unless told otherwise.
    #[arg(long, global = true, value_name = "HOW", default_value = "auto")]
    pub progress: Mode,
    /// How to log on stderr.
    #[arg(long, global = true, value_name = "FORMAT", default_value = "text")]
    pub log_format: LogFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum LogFormat {
    Text,
    Json,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Declare the /2 pyramid of a store in its manifest, from the config it was written
    /// with.
    ///
    /// Example: zagg-stream declare s3://bucket/product --config product.yaml --overviews 13
    Declare(DeclareArgs),
    /// Write the leaf columns a store declares and lacks.
    ///
    /// Example: zagg-stream backfill s3://bucket/product --max-leaves 3
    Backfill(BackfillArgs),
    /// Build the ladder above columns that are all current.
    ///
    /// Example: zagg-stream sweep s3://bucket/product
    Sweep(SweepArgs),
    /// Run the upgrade: declare when a config is given, then the columns, then the ladder;
    /// it goes on where it was stopped.
    ///
    /// Example: zagg-stream upgrade /data/product --config product.yaml --overviews 13
    Upgrade(UpgradeArgs),
    /// Say what `upgrade` would do, step by step, and what stands in its way; write nothing.
    ///
    /// Example: zagg-stream plan /data/product --config product.yaml --overviews 13
    Plan(PlanArgs),
    /// List what a /1 pyramid left behind in an upgraded store, and delete it with --yes.
    ///
    /// Example: zagg-stream retire s3://bucket/product
    Retire(RetireArgs),
    /// Hold a store against its own laws: declaration, columns, ladder, hashes and folds;
    /// writes nothing.
    ///
    /// Example: zagg-stream verify s3://bucket/product
    Verify(VerifyArgs),
    /// Look at the sweep lease of a store, or give it back.
    ///
    /// Example: zagg-stream lease show s3://bucket/product
    #[command(subcommand)]
    Lease(LeaseCommand),
    /// Check, heal, pull and push Sentinel-1 cubes: Zarr stores that grow along `time`.
    ///
    /// Example: zagg-stream cube check s3://bucket/cubes/30TWM.zarr
    #[command(subcommand)]
    Cube(CubeCommand),
    /// Serve upgrades over HTTP: start, follow, stop, and a page to do so.
    ///
    /// Example: zagg-stream serve --listen 127.0.0.1:8480 --config serve.toml
    #[cfg(feature = "serve")]
    Serve(ServeArgs),
    /// Print completions for a shell.
    ///
    /// Example: zagg-stream completions bash
    Completions(CompletionsArgs),
    /// Print the man page, or write one for every command into a directory.
    ///
    /// Example: zagg-stream man /usr/local/share/man/man1
    Man(ManArgs),
    /// Work on one part of a run that `upgrade --fleet` coordinates, as an array of a
    /// scheduler has it do.
    ///
    /// Example: zagg-stream worker --run s3://bucket/product/.zagg-stream/fleet-ID/columns --part 0
    Worker(WorkerArgs),
    /// Have an upgrade done by a scheduler.
    ///
    /// Example: zagg-stream fleet script /shared/product --engine slurm --workers 16
    #[command(subcommand)]
    Fleet(FleetCommand),
    /// Write a small real store to try an upgrade on.
    ///
    /// Example: zagg-stream demo /tmp/demo --leaves 4
    Demo(DemoArgs),
}

#[derive(Debug, ClapArgs)]
pub(super) struct DeclareArgs {
    /// The store: a path, or a URL with s3, gs or az.
    pub root: String,
    /// The YAML config the store was written with.
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
    #[command(flatten)]
    pub lever: LeverArgs,
    /// Say what would be declared and what would refuse it; write nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Print one JSON document on stdout instead of a summary.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, ClapArgs)]
pub(super) struct LeverArgs {
    /// Orders of cells at the leaves, finest first, comma-separated; overrides the
    /// config's own schedule.
    #[arg(
        long,
        value_name = "N",
        value_delimiter = ',',
        conflicts_with = "chunk_order"
    )]
    pub overviews: Vec<u8>,
    /// Order of the chunks, which completes the default schedule of a config that spells
    /// none.
    #[arg(long, value_name = "N")]
    pub chunk_order: Option<u8>,
}

#[derive(Debug, ClapArgs)]
pub(super) struct BackfillArgs {
    #[command(flatten)]
    pub run: RunArgs,
    /// Write at most this many columns, then stop; run again for more.
    #[arg(long, value_name = "N")]
    pub max_leaves: Option<u64>,
}

#[derive(Debug, ClapArgs)]
pub(super) struct SweepArgs {
    #[command(flatten)]
    pub run: RunArgs,
    #[command(flatten)]
    pub ladder: LadderArgs,
    /// Build the ladder although committed leaves have no current column.
    #[arg(long)]
    pub allow_gaps: bool,
}

#[derive(Debug, ClapArgs)]
pub(super) struct LadderArgs {
    /// Orders of the ladder worked on between two barriers. It changes how much is done
    /// at once, not what is written.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..))]
    pub tuple_width: Option<u8>,
}

#[derive(Debug, ClapArgs)]
pub(super) struct UpgradeArgs {
    #[command(flatten)]
    pub run: RunArgs,
    #[command(flatten)]
    pub ladder: LadderArgs,
    #[command(flatten)]
    pub fleet: FleetArgs,
    /// Write at most this many columns, then stop; run again for more.
    #[arg(long, value_name = "N", conflicts_with = "fleet")]
    pub max_leaves: Option<u64>,
    /// Delete what the earlier pyramid left behind, once the store is verified. It is not
    /// brought back.
    #[arg(long)]
    pub retire: bool,
    /// Write a receipt also when nothing else was written.
    #[arg(long)]
    pub receipt: bool,
    /// Declare the pyramid first, from this YAML config the store was written with.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    #[command(flatten)]
    pub lever: LeverArgs,
}

#[derive(Debug, ClapArgs)]
pub(super) struct PlanArgs {
    #[command(flatten)]
    pub run: RunArgs,
    #[command(flatten)]
    pub ladder: LadderArgs,
    /// Plan with the pyramid declared from this YAML config the store was written with.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    #[command(flatten)]
    pub lever: LeverArgs,
}

/// What every step of an upgrade takes.
#[derive(Debug, ClapArgs)]
pub(super) struct RunArgs {
    /// The store: a path, or a URL with s3, gs or az.
    pub root: String,
    /// Which cells the groups of a column fold from: boundary (the published rule) or
    /// raw (stores written before it).
    #[arg(long, value_name = "LAW", value_parser = parse_law)]
    pub fold_law: Option<FoldLaw>,
    /// Write everything, also what is current.
    #[arg(long)]
    pub force: bool,
    /// Say what is due and why, in the log, and write nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Only these shards, by decimal id, comma-separated; write `--shards=-31123` for an
    /// id that begins with a minus.
    #[arg(
        long,
        value_name = "IDS",
        value_delimiter = ',',
        allow_hyphen_values = true
    )]
    pub shards: Vec<String>,
    /// Bytes of leaves in flight, such as 512MiB.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub memory_budget: Option<u64>,
    /// Leaves in the pipeline at once.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub max_in_flight: Option<u64>,
    /// Settings file; config/default.toml lists every key with its default.
    #[arg(long, value_name = "FILE")]
    pub settings: Option<PathBuf>,
    /// Print one JSON document on stdout instead of a summary.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, ClapArgs)]
pub(super) struct RetireArgs {
    /// The store: a path, or a URL with s3, gs or az.
    pub root: String,
    /// Verify the store and, when it is clean, delete what is listed. It is not brought
    /// back.
    #[arg(long)]
    pub yes: bool,
    /// The law the columns were folded by: boundary (the published rule) or raw (stores
    /// written before it).
    #[arg(long, value_name = "LAW", value_parser = parse_law)]
    pub fold_law: Option<FoldLaw>,
    /// Settings file; config/default.toml lists every key with its default.
    #[arg(long, value_name = "FILE")]
    pub settings: Option<PathBuf>,
    /// Print one JSON document on stdout instead of a summary.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, ClapArgs)]
pub(super) struct VerifyArgs {
    /// The store: a path, or a URL with s3, gs, az or http.
    pub root: String,
    /// Hold the store against this receipt of an upgrade instead, a file or a URL: the
    /// declaration, every leaf's stamp, and every column and overview by its hash. Needs
    /// no listing.
    #[arg(long, value_name = "FILE|URL", conflicts_with_all = ["full", "sample", "seed", "fold_law"])]
    pub receipt: Option<String>,
    /// Fold every column from its leaf, not only a sample; reads the whole store.
    #[arg(long, conflicts_with_all = ["sample", "seed"])]
    pub full: bool,
    /// How many leaves to fold anew.
    #[arg(long, value_name = "N", default_value_t = crate::verify::DEFAULT_SAMPLE)]
    pub sample: u64,
    /// Another seed chooses other leaves, the same one the same.
    #[arg(long, value_name = "S", default_value_t = 0)]
    pub seed: u64,
    /// The law the columns were folded by: boundary (the published rule) or raw (stores
    /// written before it).
    #[arg(long, value_name = "LAW", value_parser = parse_law)]
    pub fold_law: Option<FoldLaw>,
    /// Bytes of artifacts and leaves in flight, such as 512MiB.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub memory_budget: Option<u64>,
    /// Artifacts looked at at once.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub max_in_flight: Option<u64>,
    /// Settings file; config/default.toml lists every key with its default.
    #[arg(long, value_name = "FILE")]
    pub settings: Option<PathBuf>,
    /// Print one JSON document on stdout instead of a table.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Subcommand)]
pub(super) enum LeaseCommand {
    /// Say who holds the lease.
    ///
    /// Example: zagg-stream lease show s3://bucket/product
    Show(LeaseArgs),
    /// Remove an expired lease, or that of a run that is known to be dead.
    ///
    /// Example: zagg-stream lease release s3://bucket/product
    Release(ReleaseArgs),
}

#[derive(Debug, ClapArgs)]
pub(super) struct LeaseArgs {
    /// The store: a path or a URL.
    pub root: String,
    /// Print one JSON document on stdout.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, ClapArgs)]
pub(super) struct ReleaseArgs {
    #[command(flatten)]
    pub lease: LeaseArgs,
    /// The run whose lease it is, as `lease show` names it; needed when it is live.
    #[arg(long, value_name = "ID")]
    pub run_id: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(super) enum CubeCommand {
    /// Say what is wrong with a cube: levels without `time`, lengths that disagree, stale
    /// consolidated metadata, and whether an append after a minimal fetch is safe; write
    /// nothing.
    ///
    /// Example: zagg-stream cube check s3://bucket/cubes/30TWM.zarr
    Check(CubeCheckArgs),
    /// Give every level that lacks `time` a copy of the finest level's; a healthy cube is
    /// not written to.
    ///
    /// Example: zagg-stream cube heal s3://bucket/cubes/30TWM.zarr --dry-run
    Heal(CubeHealArgs),
    /// Fetch what an append needs of a cube, which is its metadata and coordinates, into an
    /// empty directory.
    ///
    /// Example: zagg-stream cube pull s3://bucket/cubes/30TWM.zarr work/30TWM.zarr
    Pull(CubePullArgs),
    /// Upload what an append has added to a copy that was pulled.
    ///
    /// Example: zagg-stream cube push work/30TWM.zarr s3://bucket/cubes/30TWM.zarr
    Push(CubePushArgs),
}

#[derive(Debug, ClapArgs)]
pub(super) struct CubeCheckArgs {
    /// The cube: a path, or a URL with s3, gs or az.
    pub root: String,
    #[command(flatten)]
    pub common: CubeCommonArgs,
}

#[derive(Debug, ClapArgs)]
pub(super) struct CubeHealArgs {
    /// The cube: a path, or a URL with s3, gs or az.
    pub root: String,
    /// Say what would be written and what would refuse it; write nothing.
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub common: CubeCommonArgs,
}

#[derive(Debug, ClapArgs)]
pub(super) struct CubePullArgs {
    /// The cube: a URL with s3, gs or az, or a path.
    pub remote: String,
    /// The directory to fetch into; it must not exist, or be empty.
    pub local: PathBuf,
    /// Fetch everything, which an append needs where one stored object spans several
    /// times.
    #[arg(long)]
    pub full: bool,
    #[command(flatten)]
    pub common: CubeCommonArgs,
}

#[derive(Debug, ClapArgs)]
pub(super) struct CubePushArgs {
    /// The directory that was pulled into.
    pub local: PathBuf,
    /// The cube it was pulled from.
    pub remote: String,
    /// Say what would be uploaded and deleted, and what would refuse it; write nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Write over objects of bulk arrays, too, when they were pulled with --full and have
    /// changed since, and over objects that no array shows.
    #[arg(long)]
    pub replace_bulk: bool,
    #[command(flatten)]
    pub common: CubeCommonArgs,
}

/// What every command on a cube takes.
#[derive(Debug, ClapArgs)]
pub(super) struct CubeCommonArgs {
    /// Settings file; config/default.toml lists every key with its default.
    #[arg(long, value_name = "FILE")]
    pub settings: Option<PathBuf>,
    /// Print one JSON document on stdout instead of a summary.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, ClapArgs)]
pub(super) struct DemoArgs {
    /// Directory of the new store; it must not exist, or be empty.
    pub dir: PathBuf,
    /// Number of leaves; their shards are at order 4, or 5 when there are more than 3072.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..))]
    pub leaves: u32,
    /// Order of a leaf's cells.
    #[arg(long, value_name = "C", default_value_t = 9, value_parser = clap::value_parser!(u8).range(6..=16))]
    pub cell_order: u8,
    /// Which fields the store has.
    #[arg(long, default_value = "plain")]
    pub fields: DemoFields,
    /// Seed of the observations.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Mean number of centroids in a cell's digest.
    #[arg(long, value_name = "N", default_value_t = 12, value_parser = clap::value_parser!(u32).range(1..))]
    pub centroids: u32,
    /// Print one JSON document on stdout.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum DemoFields {
    /// A count and a digest.
    Plain,
    /// Two located digests and a packed composition.
    Strata,
    /// A located digest with times.
    Temporal,
}

pub(super) fn parse_law(text: &str) -> Result<FoldLaw, String> {
    match text {
        "boundary" => Ok(FoldLaw::Boundary),
        "raw" => Ok(FoldLaw::Raw),
        _ => Err("expected boundary or raw".to_owned()),
    }
}

pub(super) fn size(text: &str) -> Result<u64, String> {
    parse_size(text).ok_or_else(|| "expected a size such as 512MiB".to_owned())
}
