//! The choices of autotuning, such as the fastest library algorithm of a matmul.
//!
//! Algorithms sum in different orders, so the last bits of a result depend on the choice. Reports and checkpoints therefore
//! contain the choices, and a run that resumes on the same model of device repeats them.

#[cfg(any(feature = "cuda", feature = "wgpu"))]
use crate::cache::DiskCache;
use engine_core::program::TuneKey;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The choices of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tuning {
    /// The model of the device, and the versions that a choice depends on.
    pub device: String,
    /// The texts of the choices, by the names of their keys.
    pub choices: BTreeMap<String, String>,
}

impl Tuning {
    /// Its text in a checkpoint.
    pub fn to_text(&self) -> String {
        serde_json::to_string(self).unwrap_or_else(|error| engine_core::bug!("choices are no JSON: {error}"))
    }

    /// `None` if the text is not one of choices.
    pub fn from_text(text: &str) -> Option<Tuning> {
        serde_json::from_str(text).ok()
    }
}

/// A choice with a text form.
pub trait Choice: Sized {
    /// The recorded text.
    fn to_text(&self) -> String;

    /// `None` if the text is not one of a choice.
    fn from_text(text: &str) -> Option<Self>;
}

/// Makes and records the choices of a device.
pub struct Tuner {
    device: String,
    /// The choices of other runs.
    adopted: Mutex<BTreeMap<String, String>>,
    made: Mutex<BTreeMap<String, String>>,
}

impl Tuner {
    /// No choices yet, for a device of this model.
    pub fn new(device: String) -> Tuner {
        Tuner { device, adopted: Mutex::default(), made: Mutex::default() }
    }

    /// The model of the device.
    pub fn device(&self) -> &str {
        &self.device
    }

    /// The recorded choice of a key if it is still possible, or else the result of `find`. If several threads search at the
    /// same time, all of them return the first result.
    ///
    /// # Errors
    /// Those of `find`.
    pub fn choose<T: Choice, E>(
        &self,
        key: &TuneKey,
        is_possible: impl Fn(&T) -> bool,
        find: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        if let Some(known) = self.known(key, &is_possible) {
            return Ok(known);
        }
        // No lock is held during the search, which may itself need choices.
        let found = find()?;
        let mut made = locked(&self.made);
        let first = read(&made, &key.name(), is_possible);
        Ok(first.unwrap_or_else(|| {
            made.insert(key.name(), found.to_text());
            found
        }))
    }

    /// The recorded choice of a key, if it is still possible.
    fn known<T: Choice>(&self, key: &TuneKey, is_possible: impl Fn(&T) -> bool) -> Option<T> {
        let name = key.name();
        if let Some(adopted) = read::<T>(&locked(&self.adopted), &name, &is_possible) {
            locked(&self.made).insert(name, adopted.to_text());
            return Some(adopted);
        }
        read(&locked(&self.made), &name, is_possible)
    }

    /// As [`Tuner::choose`], with choices stored on disk for later runs. A choice is found by the model of the device and the
    /// details of its key.
    ///
    /// # Errors
    /// Those of `find`.
    #[cfg(any(feature = "cuda", feature = "wgpu"))]
    pub(crate) fn recall<T: Choice, E>(
        &self,
        disk: &DiskCache,
        key: &TuneKey,
        is_possible: impl Fn(&T) -> bool,
        find: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        self.choose(key, &is_possible, || {
            if let Some(known) = self.on_disk(disk, key, &is_possible) {
                return Ok(known);
            }
            let found = find()?;
            disk.write(&self.disk_key(key), found.to_text().as_bytes());
            Ok(found)
        })
    }

    /// Whether a choice is recorded, here or on disk.
    #[cfg(any(feature = "cuda", feature = "wgpu"))]
    pub(crate) fn recalls<T: Choice>(
        &self,
        disk: &DiskCache,
        key: &TuneKey,
        is_possible: impl Fn(&T) -> bool,
    ) -> bool {
        self.known(key, &is_possible).or_else(|| self.on_disk(disk, key, &is_possible)).is_some()
    }

    #[cfg(any(feature = "cuda", feature = "wgpu"))]
    fn on_disk<T: Choice>(
        &self,
        disk: &DiskCache,
        key: &TuneKey,
        is_possible: impl Fn(&T) -> bool,
    ) -> Option<T> {
        let bytes = disk.read(&self.disk_key(key))?;
        T::from_text(str::from_utf8(&bytes).ok()?).filter(is_possible)
    }

    #[cfg(any(feature = "cuda", feature = "wgpu"))]
    fn disk_key(&self, key: &TuneKey) -> String {
        format!("{}\n{}", self.device, key.details)
    }

    /// Adopts the choices of another run, if it used the same model of device. Returns whether it did.
    pub fn adopt(&self, tuning: &Tuning) -> bool {
        let is_same = tuning.device == self.device;
        if is_same {
            locked(&self.adopted).extend(tuning.choices.clone());
        }
        is_same
    }

    /// The choices so far; `None` if there are none.
    pub fn tuning(&self) -> Option<Tuning> {
        let choices = locked(&self.made).clone();
        (!choices.is_empty()).then(|| Tuning { device: self.device.clone(), choices })
    }
}

/// A recorded choice, if it is possible.
fn read<T: Choice>(
    choices: &BTreeMap<String, String>,
    name: &str,
    is_possible: impl Fn(&T) -> bool,
) -> Option<T> {
    choices.get(name).and_then(|text| T::from_text(text)).filter(is_possible)
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::device::DeviceError;

    impl Choice for u32 {
        fn to_text(&self) -> String {
            self.to_string()
        }
        fn from_text(text: &str) -> Option<u32> {
            text.parse().ok()
        }
    }

    fn key(details: &str) -> TuneKey {
        TuneKey { subject: "product".to_string(), details: details.to_string() }
    }

    fn choose(tuner: &Tuner, details: &str, found: u32) -> u32 {
        tuner.choose(&key(details), |&known| known < 100, || Ok::<_, DeviceError>(found)).unwrap()
    }

    #[test]
    fn choices_are_adopted_on_the_same_model_only() {
        let first = Tuner::new("A".into());
        assert_eq!(first.tuning(), None);
        assert_eq!((choose(&first, "2x2", 7), choose(&first, "3x3", 8)), (7, 8));
        let tuning = Tuning::from_text(&first.tuning().unwrap().to_text()).unwrap();
        assert_eq!(Some(&tuning), first.tuning().as_ref());
        assert_eq!(tuning.choices.values().collect::<Vec<_>>().len(), 2);

        let same = Tuner::new("A".into());
        assert!(same.adopt(&tuning));
        assert_eq!((choose(&same, "2x2", 70), choose(&same, "4x4", 9)), (7, 9));
        // Adopted choices that this run does not use are not recorded.
        assert_eq!(same.tuning().unwrap().choices.len(), 2);

        let other = Tuner::new("B".into());
        assert!(!other.adopt(&tuning));
        assert_eq!(choose(&other, "2x2", 70), 70);
    }

    /// Two threads that search for the same key at once find different choices, and both return the first.
    #[test]
    fn concurrent_searches_return_the_first_choice() {
        let tuner = Tuner::new("A".into());
        let both_try = std::sync::Barrier::new(2);
        let choose = |found: u32| {
            let find = || {
                both_try.wait();
                Ok::<_, DeviceError>(found)
            };
            tuner.choose(&key("2x2"), |_| true, find).unwrap()
        };
        let (a, b) = std::thread::scope(|scope| {
            let a = scope.spawn(|| choose(7));
            (choose(8), a.join().unwrap())
        });
        assert_eq!(a, b);
        assert_eq!(
            tuner.choose(&key("2x2"), |_| true, || Ok::<_, DeviceError>(9)).unwrap(),
            a,
            "no second search"
        );
        assert_eq!(tuner.tuning().unwrap().choices.into_values().collect::<Vec<_>>(), [a.to_string()]);
    }

    #[test]
    fn an_impossible_or_unreadable_choice_is_replaced() {
        for text in ["100", "seven", ""] {
            let tuner = Tuner::new("A".into());
            choose(&tuner, "2x2", 7);
            let mut tuning = tuner.tuning().unwrap();
            tuning.choices.values_mut().for_each(|choice| *choice = text.to_string());
            let tuner = Tuner::new("A".into());
            assert!(tuner.adopt(&tuning));
            assert_eq!(choose(&tuner, "2x2", 9), 9, "{text}");
        }
        assert_eq!(Tuning::from_text("{\"device\": 1}"), None);
    }

    #[cfg(any(feature = "cuda", feature = "wgpu"))]
    #[test]
    fn choices_of_another_process_are_read_from_disk() {
        let folder = tempfile::tempdir().unwrap();
        let recall = |device: &str, details: &str, found: u32| {
            let (tuner, disk) = (Tuner::new(device.into()), DiskCache::within(folder.path()));
            tuner.recall(&disk, &key(details), |&chosen| chosen < 10, || Ok::<_, DeviceError>(found)).unwrap()
        };
        assert_eq!(recall("model", "wide", 3), 3);
        assert_eq!(recall("model", "wide", 4), 3);
        assert_eq!(recall("model", "tall", 5), 5);
        assert_eq!(recall("another model", "wide", 6), 6);
        // A choice that is no longer possible is replaced.
        assert_eq!(recall("third model", "wide", 12), 12);
        assert_eq!(recall("third model", "wide", 7), 7);
    }

    #[test]
    fn a_failed_search_records_no_choice() {
        let tuner = Tuner::new("A".into());
        let failed = tuner.choose(&key(""), |_: &u32| true, || Err(DeviceError::ForeignBuffer));
        assert_eq!((failed, tuner.tuning()), (Err(DeviceError::ForeignBuffer), None));
    }
}
