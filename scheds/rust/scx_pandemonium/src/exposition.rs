//! The telemetry as an OpenMetrics exposition, for monitoring systems.
//!
//! A field of [`Metrics`] is a metric with the same name and meaning, behind
//! `scx_pandemonium_`. A count of events is a counter, so its name gets `_total`;
//! a word is a gauge that is 1, with the word as its label.
//!
//! Counters have to be totals: ask the server for these (server).

use anyhow::{Context, Result};
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::registry::Registry;
use scx_stats::prelude::{Meta, StatsField};
use serde_json::Value;

use crate::stats::Metrics;

/// What the names of all metrics begin with.
const PREFIX: &str = "scx_pandemonium";

/// What the names of fields that count begin with, and the mark of those that
/// count what there is now.
const COUNT_PREFIX: &str = "nr_";
const GAUGE_MARK: &str = "_gauge";

/// `metrics`, with counts since the start, as one exposition.
///
/// # Errors
///
/// If there is a field that is neither a number nor a word.
pub fn exposition(metrics: &Metrics) -> Result<String> {
    let values = serde_json::to_value(metrics).context("reading the telemetry")?;
    let mut registry = Registry::with_prefix(PREFIX);
    for (name, field) in &Metrics::meta().fields {
        register(&mut registry, name, field, &values[name])
            .with_context(|| format!("{name} is no metric: {}", values[name]))?;
    }
    let mut text = String::new();
    encode(&mut text, &registry).context("writing the exposition")?;
    Ok(text)
}

/// Whether the field `name` counts events, whose number only grows.
fn is_count(name: &str, field: &StatsField) -> bool {
    name.starts_with(COUNT_PREFIX) && !field.attrs.user.contains_key(GAUGE_MARK)
}

/// Let `registry` have the field `name`; `None` if it cannot be a metric.
fn register(registry: &mut Registry, name: &str, field: &StatsField, value: &Value) -> Option<()> {
    let help = field.attrs.desc.clone().unwrap_or_default();
    if let Some(word) = value.as_str() {
        let family = Family::<Vec<(String, String)>, Gauge>::default();
        let label = vec![(name.to_owned(), word.to_owned())];
        family.get_or_create(&label).set(1);
        registry.register(name, help, family);
    } else if is_count(name, field) {
        registry.register(name, help, ConstCounter::new(value.as_u64()?));
    } else if let Some(number) = value.as_i64() {
        registry.register(name, help, ConstGauge::new(number));
    } else {
        registry.register(name, help, ConstGauge::new(value.as_f64()?));
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use prometheus_parse::{LineInfo, SampleType, Scrape};

    use super::*;

    /// An interval in which each number differs from the others.
    fn metrics() -> Metrics {
        let mut values = serde_json::to_value(Metrics::default()).unwrap();
        for (number, value) in (1..).zip(values.as_object_mut().unwrap().values_mut()) {
            *value = match value {
                Value::String(_) => format!("word {number}").into(),
                Value::Number(old) if old.is_f64() => (f64::from(number) + 0.5).into(),
                _ => number.into(),
            };
        }
        serde_json::from_value(values).unwrap()
    }

    /// What the exposition says that each metric is, and its samples; each line
    /// is one that the format has, and belongs to the metric before it.
    fn families(text: &str) -> BTreeMap<String, (SampleType, Vec<String>)> {
        let mut families = BTreeMap::new();
        let mut current: Option<(String, String)> = None;
        let lines = text.strip_suffix("# EOF\n").expect("there is an end");
        for line in lines.lines() {
            match LineInfo::parse(line) {
                LineInfo::Doc { metric_name, doc } => {
                    assert!(!doc.contains(['\\', '"']), "{line}");
                    current = Some((metric_name.to_owned(), String::new()));
                }
                LineInfo::Type {
                    metric_name,
                    sample_type,
                    ..
                } => {
                    let (name, suffix) = current.as_mut().expect("a help is first");
                    assert_eq!(*name, metric_name);
                    if sample_type == SampleType::Counter {
                        "_total".clone_into(suffix);
                    }
                    let known = families.insert(metric_name, (sample_type, Vec::new()));
                    assert!(known.is_none(), "twice: {line}");
                }
                LineInfo::Sample { metric_name, .. } => {
                    let (name, suffix) = current.as_ref().expect("a type is first");
                    assert_eq!(format!("{name}{suffix}"), metric_name);
                    families.get_mut(name).unwrap().1.push(line.to_owned());
                }
                other => panic!("{line}: {other:?}"),
            }
        }
        families
    }

    #[test]
    fn each_field_is_one_metric_of_the_right_type() {
        let families = families(&exposition(&metrics()).unwrap());
        let fields = Metrics::meta().fields;
        assert_eq!(families.len(), fields.len());
        for (name, (kind, samples)) in families {
            assert_eq!(samples.len(), 1, "{samples:?}");
            let name = name.strip_prefix("scx_pandemonium_").unwrap();
            assert!(fields.contains_key(name), "{name} is no field");
            let of_now = [
                "nr_cpus",
                "nr_procdb",
                "nr_procdb_known",
                "nr_confined_cpus",
            ];
            let counts = name.starts_with("nr_") && !of_now.contains(&name);
            assert_eq!(kind == SampleType::Counter, counts, "{name}");
        }
    }

    #[test]
    fn the_samples_have_the_values_of_the_fields() {
        let metrics = metrics();
        let text = exposition(&metrics).unwrap();
        let lines = text.lines().map(|line| Ok(line.to_owned()));
        let scrape = Scrape::parse(lines).unwrap();
        let expected = serde_json::to_value(&metrics).unwrap();
        for sample in &scrape.samples {
            let name = sample.metric.strip_prefix("scx_pandemonium_").unwrap();
            let name = name.strip_suffix("_total").unwrap_or(name);
            let value = match &sample.value {
                prometheus_parse::Value::Counter(value)
                | prometheus_parse::Value::Gauge(value)
                | prometheus_parse::Value::Untyped(value) => *value,
                other => panic!("{name}: {other:?}"),
            };
            match &expected[name] {
                Value::String(word) => {
                    assert_eq!(value, 1.0, "{name}");
                    assert_eq!(sample.labels.get(name), Some(word.as_str()));
                }
                number => assert_eq!(Some(value), number.as_f64(), "{name}"),
            }
        }
    }
}
