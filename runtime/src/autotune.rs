//! What a device finds out by trying, such as which of a library's algorithms is the fastest for a product.
//!
//! Another algorithm adds up in another order, so the last bits of a result depend on what was chosen. That is why choices
//! go into reports and checkpoints: a run that is resumed on the same model of device makes the same ones.

#[cfg(any(feature = "cuda", feature = "wgpu"))]
use crate::cache::DiskCache;
use crate::device::DeviceError;
use engine_core::program::TuneKey;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The choices of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tuning {
    /// The model of the device, and the versions that a choice depends on.
    pub device: String,
    /// What was chosen, by what it was chosen for.
    pub choices: BTreeMap<String, String>,
}

impl Tuning {
    /// For the text of a checkpoint.
    pub fn to_text(&self) -> String {
        serde_json::to_string(self).unwrap_or_else(|error| engine_core::bug!("choices are no JSON: {error}"))
    }

    /// None if it is no such text.
    pub fn from_text(text: &str) -> Option<Tuning> {
        serde_json::from_str(text).ok()
    }
}

/// Something that can be chosen, as text.
pub trait Choice: Sized {
    /// What is kept of it.
    fn to_text(&self) -> String;

    /// None if these are not the words of one.
    fn from_text(text: &str) -> Option<Self>;
}

/// Makes the choices of a device, and remembers them.
pub struct Tuner {
    device: String,
    /// What other runs have chosen.
    adopted: Mutex<BTreeMap<String, String>>,
    made: Mutex<BTreeMap<String, String>>,
}

impl Tuner {
    /// Of a device of this model.
    pub fn new(device: String) -> Tuner {
        Tuner { device, adopted: Mutex::default(), made: Mutex::default() }
    }

    /// The model.
    pub fn device(&self) -> &str {
        &self.device
    }

    /// What was chosen before for the same thing, if that can still be had, or what `find` finds. Of threads that find at once, the first one's choice stands for all.
    ///
    /// # Errors
    /// Those of `find`.
    pub fn choose<T: Choice>(
        &self,
        key: &TuneKey,
        is_possible: impl Fn(&T) -> bool,
        find: impl FnOnce() -> Result<T, DeviceError>,
    ) -> Result<T, DeviceError> {
        let name = key.name();
        let known = |choices: &BTreeMap<String, String>| {
            choices.get(&name).and_then(|text| T::from_text(text)).filter(&is_possible)
        };
        let adopted = known(&locked(&self.adopted));
        if let Some(adopted) = adopted {
            locked(&self.made).insert(name, adopted.to_text());
            return Ok(adopted);
        }
        let made = known(&locked(&self.made));
        if let Some(made) = made {
            return Ok(made);
        }
        // Nothing is locked meanwhile: what is tried may ask for choices itself.
        let found = find()?;
        let mut made = locked(&self.made);
        let first = known(&made);
        Ok(first.unwrap_or_else(|| {
            made.insert(name.clone(), found.to_text());
            found
        }))
    }

    /// As [`Tuner::choose`], and keeps what is found for later runs; details that such a device answered for before are not
    /// looked into again.
    ///
    /// # Errors
    /// Those of `find`.
    #[cfg(any(feature = "cuda", feature = "wgpu"))]
    pub(crate) fn recall<T: Choice>(
        &self,
        disk: &DiskCache,
        key: &TuneKey,
        is_possible: impl Fn(&T) -> bool,
        find: impl FnOnce() -> Result<T, DeviceError>,
    ) -> Result<T, DeviceError> {
        self.choose(key, &is_possible, || {
            let key = format!("{}\n{}", self.device, key.details);
            let known = disk.read(&key).and_then(|bytes| T::from_text(str::from_utf8(&bytes).ok()?));
            if let Some(known) = known.filter(&is_possible) {
                return Ok(known);
            }
            let found = find()?;
            disk.write(&key, found.to_text().as_bytes());
            Ok(found)
        })
    }

    /// Lets choices of another run stand, and returns whether that was on such a device.
    pub fn adopt(&self, tuning: &Tuning) -> bool {
        let is_same = tuning.device == self.device;
        if is_same {
            locked(&self.adopted).extend(tuning.choices.clone());
        }
        is_same
    }

    /// The choices so far; none if there was nothing to choose.
    pub fn tuning(&self) -> Option<Tuning> {
        let choices = locked(&self.made).clone();
        (!choices.is_empty()).then(|| Tuning { device: self.device.clone(), choices })
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

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
        tuner.choose(&key(details), |&known| known < 100, || Ok(found)).unwrap()
    }

    #[test]
    fn what_was_chosen_is_chosen_again_on_the_same_model_only() {
        let first = Tuner::new("A".into());
        assert_eq!(first.tuning(), None);
        assert_eq!((choose(&first, "2x2", 7), choose(&first, "3x3", 8)), (7, 8));
        let tuning = Tuning::from_text(&first.tuning().unwrap().to_text()).unwrap();
        assert_eq!(Some(&tuning), first.tuning().as_ref());
        assert_eq!(tuning.choices.values().collect::<Vec<_>>().len(), 2);

        let same = Tuner::new("A".into());
        assert!(same.adopt(&tuning));
        assert_eq!((choose(&same, "2x2", 70), choose(&same, "4x4", 9)), (7, 9));
        // What is not used any more is not passed on.
        assert_eq!(same.tuning().unwrap().choices.len(), 2);

        let other = Tuner::new("B".into());
        assert!(!other.adopt(&tuning));
        assert_eq!(choose(&other, "2x2", 70), 70);
    }

    /// Two threads that try the same thing at once find different choices; both take one.
    #[test]
    fn the_first_choice_stands_for_all() {
        let tuner = Tuner::new("A".into());
        let both_try = std::sync::Barrier::new(2);
        let choose = |found: u32| {
            let find = || {
                both_try.wait();
                Ok(found)
            };
            tuner.choose(&key("2x2"), |_| true, find).unwrap()
        };
        let (a, b) = std::thread::scope(|scope| {
            let a = scope.spawn(|| choose(7));
            (choose(8), a.join().unwrap())
        });
        assert_eq!(a, b);
        assert_eq!(tuner.choose(&key("2x2"), |_| true, || Ok(9)).unwrap(), a, "nothing is tried again");
        assert_eq!(tuner.tuning().unwrap().choices.into_values().collect::<Vec<_>>(), [a.to_string()]);
    }

    #[test]
    fn what_cannot_be_had_or_read_is_found_anew() {
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
    fn what_another_process_found_is_found_on_disk() {
        let folder = tempfile::tempdir().unwrap();
        let recall = |device: &str, details: &str, found: u32| {
            let (tuner, disk) = (Tuner::new(device.into()), DiskCache::within(folder.path()));
            tuner.recall(&disk, &key(details), |&chosen| chosen < 10, || Ok(found)).unwrap()
        };
        assert_eq!(recall("model", "wide", 3), 3);
        assert_eq!(recall("model", "wide", 4), 3);
        assert_eq!(recall("model", "tall", 5), 5);
        assert_eq!(recall("another model", "wide", 6), 6);
        // What cannot be had any more is found anew.
        assert_eq!(recall("third model", "wide", 12), 12);
        assert_eq!(recall("third model", "wide", 7), 7);
    }

    #[test]
    fn what_fails_is_no_choice() {
        let tuner = Tuner::new("A".into());
        let failed = tuner.choose(&key(""), |_: &u32| true, || Err(DeviceError::ForeignBuffer));
        assert_eq!((failed, tuner.tuning()), (Err(DeviceError::ForeignBuffer), None));
    }
}
