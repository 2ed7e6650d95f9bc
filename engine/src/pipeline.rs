//! A pipeline: data, parameters, one graph of named nodes, and the stages that use parts of it.

mod declarations;
mod goal;
mod metric;
mod monitor;
mod optimizer;
mod pattern;
mod precision;
mod schedule;
mod stage;
mod stages;
mod train;

pub use declarations::{DataDecl, Init, InputDecl, Mode, ParamDecl, SplitRef};
pub use goal::Goal;
pub use metric::{RowIds, SearchMetric};
pub(crate) use monitor::evaluation_is_missing;
pub use monitor::monitored;
pub use optimizer::{GroupRule, OptimizerDecl, ParamGroup, expect_match};
pub(crate) use pattern::{Pattern, has_braces, matches_stars, nearest_to};
pub use precision::{Behaviour, LossScale, MixedPrecision};
pub use schedule::{MetricRate, Rate, Schedule, ScheduleForm, Setting, SettingKind};
pub use stage::{Pipeline, Stage, StageData, StageIssue, StageKind, WrittenCall};
pub use stages::{
    Evaluation, GenerateStage, Given, LoadName, LoadStage, PartDecl, PredictStage, RepeatStage, RunStage,
    Sampling, SaveStage, SearchStage,
};
pub use train::{CheckpointDecl, EarlyStop, LastBatch, Monitor, TrainStage};
