//! Names that were probably meant.

use crate::work::steps;

/// The candidate that `name` was probably meant to be: equal except for case, a few edits away, or continued by a word, as
/// `mse_loss` continues `mse`.
pub fn nearest<'c>(name: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    const LONGEST: usize = 64;
    let name = name.to_lowercase();
    let allowed = (name.len() / 3).clamp(1, 4);
    let close = |candidate: &str| {
        if candidate.strip_prefix(&*name).is_some_and(|rest| rest.starts_with('_')) {
            return Some(allowed);
        }
        let plausible = candidate.len() <= LONGEST && candidate.len().abs_diff(name.len()) <= allowed;
        plausible.then(|| strsim::osa_distance(&name, &candidate.to_lowercase()))
    };
    let known = candidates.into_iter().inspect(|_| steps(1)).filter(|_| name.len() <= LONGEST);
    let scored = known.filter_map(|candidate| close(candidate).map(|edits| (edits, candidate)));
    scored
        .filter(|(edits, _)| *edits <= allowed)
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, candidate)| candidate)
}
