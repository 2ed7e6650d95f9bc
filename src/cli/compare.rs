//! `engine bench --compare`: the ratio of times to those of earlier runs, with an interval.

use std::path::Path;

use indexmap::IndexMap;
use serde_json::Value;

use super::output::{Failure, print};

/// A stage fails if its interval lies above this ratio.
const MOST: f64 = 1.03;

/// The medians of earlier runs, by stage and run.
pub(super) struct Earlier {
    /// By run: seconds by stage.
    runs: Vec<IndexMap<String, f64>>,
}

impl Earlier {
    /// The runs of a file, each printed by `engine bench --json`, one after the other.
    pub(super) fn read(file: &Path) -> Result<Earlier, Failure> {
        let refused =
            |why: String| Failure::graph(format!("{} cannot be compared with: {why}", file.display()));
        let text = std::fs::read_to_string(file).map_err(|error| refused(error.to_string()))?;
        let mut runs = vec![];
        for run in serde_json::Deserializer::from_str(&text).into_iter::<Value>() {
            let run = run.map_err(|error| refused(error.to_string()))?;
            let stages = run["stages"].as_array().ok_or_else(|| refused("it has no stages".to_string()))?;
            let median = |stage: &Value| {
                Some((stage["name"].as_str()?.to_string(), stage["median_us"].as_f64()? * 1e-6))
            };
            runs.push(stages.iter().filter_map(median).collect());
        }
        match runs.is_empty() {
            true => Err(refused("it holds no run of `engine bench --json`".to_string())),
            false => Ok(Earlier { runs }),
        }
    }

    /// How often to measure now.
    pub(super) fn n_runs(&self) -> usize {
        self.runs.len()
    }

    /// Prints a line per stage. Fails if a stage is slower beyond noise.
    pub(super) fn compare(&self, now: &[IndexMap<String, f64>]) -> Result<(), Failure> {
        print(format!("{:<16} {:>6} {:>8}   {:<18}", "stage", "runs", "ratio", "interval of 95 %"));
        let mut slower = vec![];
        for stage in now[0].keys() {
            let pairs = self.runs.iter().zip(now);
            let ratios: Vec<f64> =
                pairs.filter_map(|(before, after)| Some(after.get(stage)? / before.get(stage)?)).collect();
            if ratios.is_empty() {
                print(format!("{stage:<16} {:>6} {:>8}", 0, "-"));
                continue;
            }
            let [low, median, high] = interval(&ratios);
            print(format!("{stage:<16} {:>6} {median:>8.3}   {low:.3} to {high:.3}", ratios.len()));
            if low > MOST {
                slower.push(format!("`{stage}`"));
            }
        }
        match slower.is_empty() {
            true => Ok(()),
            false => {
                Err(Failure::machine(format!("slower than before by more than 3 %: {}", slower.join(", "))))
            }
        }
    }
}

/// The median of some numbers between the ends of its confidence interval of 95 %, by order statistics. The ends are the
/// k-th lowest and the k-th highest number. Fewer than k of n numbers lie on one side of the true median with a
/// probability of at most 2.5 %. With fewer than six numbers, the interval is all of them.
fn interval(numbers: &[f64]) -> [f64; 3] {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    let (mut k, mut choices, mut total) = (0, 1.0, 0.0);
    loop {
        total += choices / 2f64.powi(n as i32);
        if total > 0.025 || k + 1 > n / 2 {
            break;
        }
        k += 1;
        choices *= (n - k + 1) as f64 / k as f64;
    }
    let k = k.max(1);
    let median = (sorted[(n - 1) / 2] + sorted[n / 2]) / 2.0;
    [sorted[k - 1], median, sorted[n - k]]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_interval_of_a_median_is_by_order_statistics() {
        let numbers: Vec<f64> = (1..=11).rev().map(f64::from).collect();
        assert_eq!(interval(&numbers), [2.0, 6.0, 10.0]);
        assert_eq!(interval(&[3.0]), [3.0; 3]);
        assert_eq!(interval(&[3.0, 1.0]), [1.0, 2.0, 3.0]);
        // Tables of the sign test: 6 numbers are the fewest, and of 20 the sixth from each end.
        assert_eq!(interval(&numbers[..6])[0], 6.0);
        let numbers: Vec<f64> = (1..=20).map(f64::from).collect();
        assert_eq!(interval(&numbers), [6.0, 10.5, 15.0]);
    }

    #[test]
    fn a_stage_fails_only_beyond_noise() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("old.json");
        let run = |us: f64| format!(r#"{{"stages": [{{"name": "train", "median_us": {us}}}]}}"#);
        std::fs::write(&file, (0..11).map(|i| run(100.0 + f64::from(i))).collect::<String>()).unwrap();
        let earlier = Earlier::read(&file).unwrap();
        assert_eq!(earlier.n_runs(), 11);
        let now = |factor: f64| -> Vec<IndexMap<String, f64>> {
            (0..11)
                .map(|i| IndexMap::from([("train".to_string(), factor * (100.0 + f64::from(i)) * 1e-6)]))
                .collect()
        };
        assert!(earlier.compare(&now(1.02)).is_ok());
        assert!(earlier.compare(&now(1.04)).is_err());
        // Half of the runs are much slower, the others are not: the interval reaches below.
        let mut mixed = now(1.0);
        mixed.iter_mut().step_by(2).for_each(|run| run["train"] *= 1.5);
        assert!(earlier.compare(&mixed).is_ok());
        std::fs::write(&file, "{}").unwrap();
        assert!(Earlier::read(&file).is_err());
    }
}
